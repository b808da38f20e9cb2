"""The input of a job's plan other than the job and its Workloads: values and views, so that planning fetches nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from api.queues import WorkloadPriorityClass
from api.topology import ResourceFlavor
from api.workloads import Workload


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Settings of the job controller; the defaults are Kueue's."""

    manage_jobs_without_queue_name: bool = False
    namespace_managed: Callable[[str], bool] = lambda _: True
    topology: bool = True
    """Kueue's feature gate for topologies (feature_gates.py)."""
    resizes: bool = True
    """Kueue's feature gate for jobs that are resized while they run."""
    assign_queue_labels: bool = True
    open_templates: bool = False
    """Whether a pod set that goes to one domain starts without a gate (pod_set_infos.py). Kueue lacks this."""
    short_names: bool = False
    wait_for_pods_ready: bool = False
    reclaimable_pods: bool = True
    deactivated_kept: float | None = None
    """The seconds after which a job is deleted whose Workload Stowage deactivated; None for never."""
    label_keys_to_copy: tuple[str, ...] = ()
    """Labels that are copied from the job or pods to the Workload."""
    annotation_keys_to_copy: tuple[str, ...] = ()
    """Annotations that are copied likewise."""
    finish_orphaned: bool = True
    """Whether a Workload whose job is gone gets the condition Finished before its finalizer is removed."""


DEFAULTS: Final = JobOptions()


@dataclass(frozen=True, slots=True)
class JobContext:
    """The objects that a job's plan reads."""

    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    workload_priority_classes: Mapping[str, WorkloadPriorityClass] = field(default_factory=dict)
    priority_classes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Decoded scheduling.k8s.io/v1 objects."""
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    """By key, for prebuilt Workloads."""
    options: JobOptions = DEFAULTS
    children: Sequence[Mapping[str, Any]] = ()
    """The job's child jobs, if its kind has them."""
    ancestor_admitted: bool | None = None
    """Whether the job's managed ancestor is admitted; None for a job without one."""
    claim_problem: Callable[[str], str | None] = lambda key: None
    """Says why a pod that names a PersistentVolumeClaim, by key, cannot be bound now."""
