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
    """Settings of the job controller; the defaults are Kueue's.

    `topology` and `resizes` are Kueue's feature gates for topologies and for jobs that are resized while they run
    (feature_gates.py). With `open_templates`, which Kueue lacks, a pod set that goes to one domain starts without a gate
    (pod_set_infos.py). `deactivated_kept` is the number of seconds after which a job is deleted whose Workload Stowage
    deactivated, or None for never. `label_keys_to_copy` and `annotation_keys_to_copy` are copied from the job or pods to the
    Workload. With `finish_orphaned`, a Workload whose job is gone gets the condition Finished before its finalizer is removed.
    """

    manage_jobs_without_queue_name: bool = False
    namespace_managed: Callable[[str], bool] = lambda _: True
    topology: bool = True
    resizes: bool = True
    assign_queue_labels: bool = True
    open_templates: bool = False
    short_names: bool = False
    wait_for_pods_ready: bool = False
    reclaimable_pods: bool = True
    deactivated_kept: float | None = None
    label_keys_to_copy: tuple[str, ...] = ()
    annotation_keys_to_copy: tuple[str, ...] = ()
    finish_orphaned: bool = True


DEFAULTS: Final = JobOptions()


@dataclass(frozen=True, slots=True)
class JobContext:
    """The objects that a job's plan reads.

    `priority_classes` are decoded scheduling.k8s.io/v1 objects; `workloads`, by key, serves prebuilt Workloads; `children` are
    the job's child jobs, if its kind has them. `ancestor_admitted` is None for a job without a managed ancestor, else whether
    that ancestor is admitted. `claim_problem` says why a pod that names a PersistentVolumeClaim, by key, cannot be bound now.
    """

    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    workload_priority_classes: Mapping[str, WorkloadPriorityClass] = field(default_factory=dict)
    priority_classes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    options: JobOptions = DEFAULTS
    children: Sequence[Mapping[str, Any]] = ()
    ancestor_admitted: bool | None = None
    claim_problem: Callable[[str], str | None] = lambda key: None
