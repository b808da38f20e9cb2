"""The Workloads of an elastic job: which one takes the place of which, and which one its pods belong to now. Pure.

An elastic job has one admitted Workload, its slice. A job that grows gets another one, which names the admitted one in an
annotation; once it has quota, the older slice is Finished. The annotation frees quota that another Workload holds, so it counts
only between Workloads of the same job, in the same LocalQueue. The job's pods name its first slice for ever, since the template
of a running job cannot change; each later slice names the first one too.
"""

from __future__ import annotations

from api import names
from api.meta import find_condition, is_true
from api.workloads import Workload

_LONGEST = 63 + 1 + 253
"""A namespace and a name."""


def replaced_key(workload: Workload) -> str:
    """The key of the Workload whose place this one is to take; empty where it names none."""
    return workload.metadata.annotations.get(names.REPLACEMENT_FOR, "")[:_LONGEST]


def first_key(workload: Workload) -> str:
    """The key of the first slice of its job, which the job's pods name: its own where it names none."""
    name = workload.metadata.annotations.get(names.WORKLOAD_SLICE_NAME) or workload.metadata.name
    return f"{workload.metadata.namespace}/{name}"


def is_replaced(workload: Workload) -> bool:
    """Whether it is Finished because a later slice of its job has taken its place."""
    finished = find_condition(workload.status.conditions, names.FINISHED)
    return bool(
        finished and finished.status == "True" and finished.reason == names.FinishedReason.WORKLOAD_SLICE_REPLACED
    )


def refusal(new: Workload, old: Workload) -> str | None:
    """Why `new` cannot take the place of `old`, which it names; None if it can."""
    if not same_job(new, old):
        return _refused(new, "a Workload of the same job")
    if new.spec.queue_name != old.spec.queue_name:
        return _refused(new, f"a Workload of the same LocalQueue; that one is in {old.spec.queue_name}")
    return None


def _refused(new: Workload, allowed: str) -> str:
    return f"metadata.annotations[{names.REPLACEMENT_FOR}]: {replaced_key(new)}: must name {allowed}"


def waits_for(new: Workload, old: Workload | None) -> str | None:
    """Why `new` may not be considered now because of `old`, the Workload that it names; None where it may.

    One that is gone or over needs no replacement, so that `new` is a Workload like any other.
    """
    if old is None or is_true(old.status.conditions, names.FINISHED):
        return None
    if (why := refusal(new, old)) is not None:
        return why
    if is_true(old.status.conditions, names.QUOTA_RESERVED) and not is_true(old.status.conditions, names.EVICTED):
        return None
    return f"it takes the place of {old.key}, which has no quota or is on its way out"


def same_job(one: Workload, other: Workload) -> bool:
    """Whether one object controls both, by uid, and they are in its namespace."""
    controller, here = _controller(one), one.metadata.namespace == other.metadata.namespace
    return one is other or (here and controller is not None and controller == _controller(other))


def _controller(workload: Workload) -> str | None:
    found = (owner.uid for owner in workload.metadata.owner_references if owner.controller and owner.uid)
    return next(found, None)
