"""The rules for slices of elastic jobs: which Workload replaces which, and which one its pods count for. Pure.

An elastic job has one admitted Workload, its slice. A job that grows gets another Workload, which names the admitted one in an
annotation; once it has quota, the older slice is Finished. The annotation frees quota of another Workload, so it only counts
between Workloads of the same job in the same LocalQueue. The job's pods always name its first slice, since the template of a
running job cannot change; each later slice names the first one too.
"""

from __future__ import annotations

from typing import Final

from api import names
from api.meta import find_condition, is_true
from api.workloads import Workload

UPDATED: Final = "Updated not matching Workload for elastic job: {}"
"""The event of a slice whose counts follow its job, in Kueue's words."""
_LONGEST = 63 + 1 + 253
"""The length of a namespace and a name."""


def is_slice(workload: Workload) -> bool:
    """Reports whether the Workload is a slice of a job or set that may be resized while it runs."""
    return workload.metadata.annotations.get(names.ELASTIC_JOB) == "true"


def marks_of(first: str) -> dict[str, str]:
    """Returns the annotations of a later slice; `first` is the name of the first one."""
    return {names.ELASTIC_JOB: "true", names.WORKLOAD_SLICE_NAME: first}


def gates_of(workload: Workload) -> tuple[str, ...]:
    """Returns the gate of a slice's pods, which opens for as many as are admitted; none for another Workload."""
    return (names.ELASTIC_GATE,) if is_slice(workload) else ()


def replaced_key(workload: Workload) -> str:
    """Returns the key of the Workload that this one replaces, or an empty string."""
    return workload.metadata.annotations.get(names.REPLACEMENT_FOR, "")[:_LONGEST]


def first_key(workload: Workload) -> str:
    """Returns the key of the job's first slice, which the job's pods name; the Workload's own if it names none."""
    name = workload.metadata.annotations.get(names.WORKLOAD_SLICE_NAME) or workload.metadata.name
    return f"{workload.metadata.namespace}/{name}"


def is_replaced(workload: Workload) -> bool:
    """Reports whether the Workload is Finished because a later slice replaced it."""
    finished = find_condition(workload.status.conditions, names.FINISHED)
    return bool(
        finished and finished.status == "True" and finished.reason == names.FinishedReason.WORKLOAD_SLICE_REPLACED
    )


def refusal(new: Workload, old: Workload) -> str | None:
    """Returns why `new` must not replace `old`, which it names, or None if it may."""
    if not same_job(new, old):
        return _refused(new, "a Workload of the same job")
    if new.spec.queue_name != old.spec.queue_name:
        return _refused(new, f"a Workload of the same LocalQueue; that one is in {old.spec.queue_name}")
    return None


def _refused(new: Workload, allowed: str) -> str:
    return f"metadata.annotations[{names.REPLACEMENT_FOR}]: {replaced_key(new)}: must name {allowed}"


def waits_for(new: Workload, old: Workload | None) -> str | None:
    """Returns why `old`, the Workload that `new` names, keeps `new` from being considered, or None.

    If `old` is gone or finished, `new` is a Workload like any other.
    """
    if old is None or is_true(old.status.conditions, names.FINISHED):
        return None
    if (why := refusal(new, old)) is not None:
        return why
    if is_true(old.status.conditions, names.QUOTA_RESERVED) and not is_true(old.status.conditions, names.EVICTED):
        return None
    return f"it takes the place of {old.key}, which has no quota or is on its way out"


def same_job(first: Workload, second: Workload) -> bool:
    """Reports whether both Workloads are in one namespace and have the same owner, by uid."""
    here = first.metadata.namespace == second.metadata.namespace
    owner, other_owner = first.owner, second.owner
    same = owner is not None and other_owner is not None and owner.uid != "" and owner.uid == other_owner.uid
    return first is second or (here and same)
