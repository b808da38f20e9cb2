"""The settings as the webhook's rules take them. Pure. Called by app.py, and by code that completes objects without a
webhook.
"""

from __future__ import annotations

from admission.settings import AdmissionSettings
from admission.webhook.rules import TAKEN_OVER_SCHEDULERS, ReviewRules


def webhook_rules(settings: AdmissionSettings) -> ReviewRules:
    """What the reviews go by."""
    kept = frozenset(settings.schedulers.kept)
    return ReviewRules(
        taken_over_schedulers=frozenset((*TAKEN_OVER_SCHEDULERS, *settings.schedulers.taken_over)) - kept,
        kept_schedulers=kept,
        highest_group_priority=settings.sakkara.highest_priority,
        in_use_finalizer=True,
        placement=settings.placement.options(),
        manage_jobs_without_queue_name=settings.manage_jobs_without_queue_name,
        managed_namespaces=settings.managed_namespaces,
    )
