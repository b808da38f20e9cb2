"""The controller's settings that affect a world, as one value, so that it counts, places and queues as the controller does.

The command line derives it from the settings (`rules_of`); tests construct it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from admission.controllers.jobs.context import JobOptions
from admission.controllers.options import job_options
from admission.engine.model import PlacementOptions
from admission.engine.queue.past_usage import UsageRules
from admission.engine.quota.charging import PLAIN, ResourceRules
from admission.engine.quota.fairness import FairSharingRules
from admission.settings import AdmissionSettings
from admission.webhook.rules.review_rules import ReviewRules, webhook_rules
from api.pod.pods import Namespace
from api.sakkara import TOPOLOGY_NAMESPACE

BUDGET: Final = 64
"""Default number of decisions in one cycle."""


_WEBHOOK: Final = ReviewRules()


def _plain_jobs(_: Mapping[str, Namespace]) -> JobOptions:
    return JobOptions()


@dataclass(frozen=True, slots=True)
class WorldRules:
    """Rules of a world."""

    resources: ResourceRules = PLAIN
    """From requests to quota."""
    sharing: FairSharingRules | None = None
    """None without fair sharing."""
    usage: UsageRules | None = None
    """None without admission fair sharing."""
    budget: int = BUDGET
    """The number of decisions in a cycle."""
    by_eviction: bool = True
    """Whether an evicted workload is queued by its eviction time."""
    groups_outrank: bool = False
    """Whether the priority of a Sakkara group's ConfigMap counts in all namespaces."""
    one_by_one: bool = False
    """Whether a workload is admitted only when the pods of all others are ready."""
    trees: str = TOPOLOGY_NAMESPACE
    """The namespace of Sakkara's topology ConfigMaps."""
    webhook: ReviewRules = _WEBHOOK
    """The rules for new objects, and the placement options that the engine shares."""
    moves_after: float = 30.0
    """The seconds of waiting for a place before moves are planned."""
    run_times: str = ""
    """The namespace of the ConfigMap with learned run times; empty if nothing is learned."""
    jobs: Callable[[Mapping[str, Namespace]], JobOptions] = _plain_jobs
    """Returns the job controller's options for a view of the namespaces."""

    @property
    def placement(self) -> PlacementOptions:
        """The placement options, which webhook and engine share."""
        return self.webhook.placement


def rules_of(settings: AdmissionSettings) -> WorldRules:
    """Returns the rules that the settings of the processes select."""
    pods = settings.wait_for_pods_ready
    return WorldRules(
        resources=replace(settings.resources.rules(), reclaims=settings.controller.reclaimable_pods),
        sharing=settings.fair_sharing.rules(),
        usage=settings.admission_fair_sharing.rules(),
        budget=settings.controller.cycle_budget,
        by_eviction=pods.requeuing_strategy.timestamp == "Eviction",
        groups_outrank=settings.sakkara.priority_across_namespaces,
        one_by_one=pods.enabled and pods.block_admission,
        trees=settings.sakkara.topology_namespace,
        webhook=webhook_rules(settings),
        moves_after=settings.controller.moves_after,
        run_times=settings.controller.run_times_in(settings.namespace),
        jobs=lambda namespaces: job_options(settings, namespaces),
    )
