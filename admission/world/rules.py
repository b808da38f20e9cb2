"""The settings of the controller that a world applies, as one value: it counts, places and holds back as the controller would.

Read from the settings once (`rules_of`), by the command line; a test makes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from admission.controllers.jobs.context import JobOptions
from admission.controllers.options import job_options
from admission.engine.model import PlacementOptions
from admission.engine.quota.charging import PLAIN, ResourceRules
from admission.engine.quota.fairness import FairSharingRules
from admission.settings import AdmissionSettings
from admission.webhook.rules import ReviewRules, webhook_rules
from api.pods import Namespace
from api.sakkara import TOPOLOGY_NAMESPACE

BUDGET: Final = 64
"""Decisions of one cycle, unless the settings say otherwise."""


_WEBHOOK: Final = ReviewRules()


def _plain_jobs(_: Mapping[str, Namespace]) -> JobOptions:
    return JobOptions()


@dataclass(frozen=True, slots=True)
class WorldRules:
    """`resources`: what of the requests quota counts; `sharing` None: fair sharing is off; `budget`: decisions of one cycle.

    `by_eviction`: an evicted workload queues up from its eviction on. `one_by_one`: the next one is admitted when the pods of
    all others are ready. `trees`: the namespace of the ConfigMaps that describe trees. `webhook`: what new objects are given
    and refused by, with the options of placement, which the engine takes from there; `jobs`: the job controller's, for a
    view of the namespaces.
    """

    resources: ResourceRules = PLAIN
    sharing: FairSharingRules | None = None
    budget: int = BUDGET
    by_eviction: bool = True
    one_by_one: bool = False
    trees: str = TOPOLOGY_NAMESPACE
    webhook: ReviewRules = _WEBHOOK
    jobs: Callable[[Mapping[str, Namespace]], JobOptions] = _plain_jobs

    @property
    def placement(self) -> PlacementOptions:
        """How pods are placed: what the webhook checks new objects by."""
        return self.webhook.placement


def rules_of(settings: AdmissionSettings) -> WorldRules:
    """As the processes take these settings."""
    pods = settings.wait_for_pods_ready
    return WorldRules(
        resources=settings.resources.rules(),
        sharing=settings.fair_sharing.rules(),
        budget=settings.controller.cycle_budget,
        by_eviction=pods.requeuing_strategy.timestamp == "Eviction",
        one_by_one=pods.enabled and pods.block_admission,
        trees=settings.sakkara.topology_namespace,
        webhook=webhook_rules(settings),
        jobs=lambda namespaces: job_options(settings, namespaces),
    )
