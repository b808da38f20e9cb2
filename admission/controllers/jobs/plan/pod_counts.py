"""The numbers of pods of a job's pod sets: as requested, and as admitted. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from api.workloads import PodSet, Workload

Counts = Mapping[str, int]


def counts_of(pod_sets: Sequence[PodSet]) -> dict[str, int]:
    """Returns the number of pods of each pod set."""
    return {pod_set.name: pod_set.count for pod_set in pod_sets}


def with_counts(pod_sets: Sequence[PodSet], counts: Counts) -> tuple[PodSet, ...]:
    """Returns the pod sets with these counts and without minimum counts, since a job with quota keeps all of its quota."""
    return tuple(p.model_copy(update={"count": counts.get(p.name, p.count), "min_count": None}) for p in pod_sets)


def admitted_counts(workload: Workload) -> dict[str, int]:
    """Returns the number of pods of each pod set for which the Workload has quota."""
    requested, admission = counts_of(workload.spec.pod_sets), workload.status.admission
    given = {psa.name: psa.count for psa in admission.pod_set_assignments} if admission else {}
    granted = {name: given.get(name) for name in requested}
    return {name: requested[name] if count is None else min(requested[name], count) for name, count in granted.items()}


def lacks_pods(workload: Workload, wanted: Counts) -> bool:
    """Reports whether the job requests more pods than it has quota for."""
    granted = admitted_counts(workload)
    return any(count > granted.get(name, 0) for name, count in wanted.items())
