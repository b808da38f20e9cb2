"""What planning a job may look at besides the job and its Workloads. Values and views only; nothing is fetched."""

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

    `topology`, `elastic_jobs`: Kueue's gates TopologyAwareScheduling and ElasticJobsViaWorkloadSlices (feature_gates.py).
    `open_templates` (ours): a pod set that goes to one domain starts without a gate (see pod_set_infos.py).
    `deactivated_kept`: seconds that a job stays whose Workload we deactivated, None for ever. `label_keys_to_copy`: labels that
    a Workload takes over from its job or pods, `annotation_keys_to_copy` annotations likewise. `finish_orphaned`: whether a
    Workload whose job is gone is finished before it is let go.
    """

    manage_jobs_without_queue_name: bool = False
    namespace_managed: Callable[[str], bool] = lambda _: True
    topology: bool = True
    elastic_jobs: bool = True
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
    """`priority_classes` are decoded scheduling.k8s.io/v1 objects; `workloads` by key, for prebuilt ones; `children` are
    the job's child jobs, of a kind that has them.

    `ancestor_admitted`: None for a job of its own; for the child of a managed job, whether that job is admitted.
    """

    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    workload_priority_classes: Mapping[str, WorkloadPriorityClass] = field(default_factory=dict)
    priority_classes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    options: JobOptions = DEFAULTS
    children: Sequence[Mapping[str, Any]] = ()
    ancestor_admitted: bool | None = None
