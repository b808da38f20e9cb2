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
    """Rules of a world.

    `resources` maps requests to quota. `sharing` is None without fair sharing, `usage` without
    admission fair sharing. `budget` is the number of decisions in a
    cycle. With `by_eviction`, an evicted workload is queued by its eviction time. With `groups_outrank`, the priority of a
    Sakkara group's ConfigMap counts in all namespaces. With `one_by_one`, a workload is admitted
    only when the pods of all others are ready. `trees` is the namespace of Sakkara's topology ConfigMaps. `webhook` has the
    rules for new objects, and the placement options that the engine shares. `moves_after` is the seconds of waiting for a place
    before moves are planned. `run_times` is the namespace of the ConfigMap with learned run times, empty if nothing is learned.
    `jobs` returns the job controller's options for
    a view of the namespaces.
    """

    resources: ResourceRules = PLAIN
    sharing: FairSharingRules | None = None
    usage: UsageRules | None = None
    budget: int = BUDGET
    by_eviction: bool = True
    groups_outrank: bool = False
    one_by_one: bool = False
    trees: str = TOPOLOGY_NAMESPACE
    webhook: ReviewRules = _WEBHOOK
    moves_after: float = 30.0
    run_times: str = ""
    jobs: Callable[[Mapping[str, Namespace]], JobOptions] = _plain_jobs

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
        run_times=settings.namespace if settings.controller.forecasts else "",
        jobs=lambda namespaces: job_options(settings, namespaces),
    )
