"""The rules of the webhook as one frozen value: feature gates, managed namespaces, managed owners.

The application derives it once from the settings and passes it to every review; a conformance case derives it from its
feature gates. The defaults differ from Kueue's in the placement profile (Exact allows larger placement groups) and in the gate
MultiKueue (Stowage has no MultiKueue: a job handed over by spec.managedBy, which is immutable, would never run).

`placement` is also the engine's value, `gates` also the controllers'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from admission.engine.model import PlacementOptions
from admission.feature_gates import DEFAULT_GATES, FeatureGates
from admission.integrations.registry import ADAPTERS, KINDS
from admission.settings import AdmissionSettings
from api.names import EXACT, NAMESPACE_NAME_LABEL
from api.sakkara import HIGHEST_PRIORITY

JOB_CONTROLLERS = frozenset(("system:serviceaccount:kube-system:job-controller", "system:kube-controller-manager"))
"""The users under which Kubernetes' Job controller creates pods."""
_CLUSTER_CONTROLLERS = ("system:serviceaccount:kube-system:", "system:kube-controller-manager")


def is_cluster_controller(user: str) -> bool:
    """Reports whether the user is one of Kubernetes' own controllers, such as the garbage collector."""
    return user.startswith(_CLUSTER_CONTROLLERS)


# The schedulers of supported dialects: capacity scheduling, Sakkara, coscheduling, Koordinator's gangs.
TAKEN_OVER_SCHEDULERS = (
    "capacityscheduler",
    "koord-scheduler",
    "sakkara",
    "sakkara-scheduler",
    "scheduler-plugins-scheduler",
)

_PLACEMENT = PlacementOptions()

Selector = Mapping[str, Any]
GroupKind = tuple[str, str]

JOBSET: GroupKind = ("jobset.x-k8s.io", "JobSet")
JOB: GroupKind = ("batch", "Job")
WHOLE = frozenset((each.resource.group, each.resource.kind) for each in ADAPTERS) - {JOB}
"""Kinds that are admitted as a whole, except Job, which may be part of another kind."""


def _unmanaged(*namespaces: str) -> dict[str, Any]:
    key = NAMESPACE_NAME_LABEL
    return {"matchExpressions": [{"key": key, "operator": "NotIn", "values": list(namespaces)}]}


@dataclass(frozen=True, slots=True)
class ReviewRules:
    """The rules of a review."""

    gates: FeatureGates = DEFAULT_GATES
    # the engine's own options: the webhook refuses requests that placement would ignore
    placement: PlacementOptions = _PLACEMENT
    # the placement profile that the job or its queue names; None if neither does
    profile: str | None = None
    manage_jobs_without_queue_name: bool = False
    # jobs in other namespaces are ignored, whatever their labels; None manages all namespaces
    managed_namespaces: Selector | None = field(default_factory=lambda: _unmanaged("kube-system", "stowage-system"))
    # a job whose controller is one of these is part of that job, and not queued itself
    managed_owners: frozenset[GroupKind] = WHOLE
    # pods that name a taken-over scheduler get the stock one (schedulers.py); kept ones stay
    taken_over_schedulers: frozenset[str] = frozenset(TAKEN_OVER_SCHEDULERS)
    kept_schedulers: frozenset[str] = frozenset()
    # the highest priority that the ConfigMap of a Sakkara group may set
    highest_group_priority: int = HIGHEST_PRIORITY

    def is_managed_owner(self, kind: GroupKind) -> bool:
        """Reports whether objects controlled by this kind are part of it, and not queued themselves."""
        return kind in self.managed_owners or KINDS.is_declared(kind)

    @property
    def exact(self) -> bool:
        """Reports whether exact placement applies, which allows larger groups: by job or queue, else by the settings."""
        return (self.placement.profile if self.profile is None else self.profile) == EXACT


def webhook_rules(settings: AdmissionSettings) -> ReviewRules:
    """Returns the rules that the settings select; also used to complete objects without a webhook."""
    kept = frozenset(settings.schedulers.kept)
    return ReviewRules(
        gates=settings.feature_gates,
        taken_over_schedulers=frozenset((*TAKEN_OVER_SCHEDULERS, *settings.schedulers.taken_over)) - kept,
        kept_schedulers=kept,
        highest_group_priority=settings.sakkara.highest_priority,
        placement=settings.placement.options(),
        manage_jobs_without_queue_name=settings.manage_jobs_without_queue_name,
        managed_namespaces=settings.managed_namespaces,
    )
