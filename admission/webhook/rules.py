"""The settings of the webhook's rules, as one frozen value: what is on, which namespaces and owners are managed.

Read once by the application and passed into every review; a conformance case makes its own from its feature gates.
The defaults are ours. They differ from Kueue's in the placement profile (Exact: placement groups may be larger) and in the gate
MultiKueue (there is no MultiKueue here: handing a job to it by spec.managedBy, which is immutable, would strand the job).

`placement` is the value that the engine places by, `gates` the value that the controllers go by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from admission.engine.model import PlacementOptions
from admission.feature_gates import DEFAULT_GATES, FeatureGates
from admission.integrations.registry import ADAPTERS, KINDS
from admission.settings import AdmissionSettings
from api.names import EXACT
from api.sakkara import HIGHEST_PRIORITY

JOB_CONTROLLERS = ("system:serviceaccount:kube-system:job-controller", "system:kube-controller-manager")
# Of the systems whose manifests work here as they stand: capacity scheduling, Sakkara, coscheduling, Koordinator's gangs.
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
"""Kinds that are admitted as a whole, but for Job: a Job is itself a part of some of them."""


def _unmanaged(*namespaces: str) -> dict[str, Any]:
    key = "kubernetes.io/metadata.name"
    return {"matchExpressions": [{"key": key, "operator": "NotIn", "values": list(namespaces)}]}


@dataclass(frozen=True, slots=True)
class ReviewRules:
    """The rules of the reviews."""

    gates: FeatureGates = DEFAULT_GATES
    # the engine's own options: the webhook refuses what placement would drop
    placement: PlacementOptions = _PLACEMENT
    # the placement profile that the job or its queue names, None where neither does
    profile: str | None = None
    manage_jobs_without_queue_name: bool = False
    # jobs in other namespaces are left alone, whatever labels they bear; None manages all
    managed_namespaces: Selector | None = field(default_factory=lambda: _unmanaged("kube-system", "stowage-system"))
    # a job whose controller is one of these is part of that job, and not queued itself
    managed_owners: frozenset[GroupKind] = WHOLE
    # what binds pods (schedulers.py): the stock scheduler in the place of these, and these beside it
    taken_over_schedulers: frozenset[str] = frozenset(TAKEN_OVER_SCHEDULERS)
    kept_schedulers: frozenset[str] = frozenset()
    # the most that the ConfigMap of a Sakkara group may give as its priority
    highest_group_priority: int = HIGHEST_PRIORITY
    # the users under which Kubernetes' own controller creates the pods of Jobs
    job_controllers: frozenset[str] = frozenset(JOB_CONTROLLERS)

    def is_managed_owner(self, kind: GroupKind) -> bool:
        """Whether objects whose controller is of this kind are its parts, and not queued themselves."""
        return kind in self.managed_owners or KINDS.is_declared(kind)

    @property
    def exact(self) -> bool:
        """Whether exact placement holds, which takes larger groups: as the job or its queue says, else the settings."""
        return (self.placement.profile if self.profile is None else self.profile) == EXACT


def webhook_rules(settings: AdmissionSettings) -> ReviewRules:
    """The rules that the settings select. Also for code that completes objects without a webhook."""
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
