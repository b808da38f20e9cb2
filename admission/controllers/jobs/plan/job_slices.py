"""Resizes a job while it has quota, by means of Workload slices. Pure; part of `job_plan`.

- When the job grows, the next slice, a further Workload, requests all pods and names the slice that has quota. The next slice
  gets as many pods as fit; then the older slice is Finished. While it waits, the next slice follows
  the job.
- When the job was admitted with fewer pods than it requests, the same happens until it has all of them.
- When the job shrinks, the counts of the slice with quota decrease, which releases quota and capacity.

Pods beyond the admitted number wait at their gate, so the running pods never stop. A job that loses its quota is admitted
again with one Workload, and its pending slices are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from admission.controllers.jobs.plan.pod_counts import Counts, counts_of, with_counts
from admission.controllers.state.actions import PatchWorkload, PlannedEvent
from admission.controllers.watch.slices import UPDATED, first_key, is_replaced, marks_of, replaced_key
from api import names
from api.meta import is_true, split_key
from api.workloads import Workload


@dataclass(frozen=True, slots=True)
class Slices:
    """The Workloads of a job that is resized."""

    current: Workload | None
    """The one that has the job's quota."""
    following: Workload | None = None
    """The one that waits to replace it."""
    replaced: tuple[tuple[Workload, Workload], ...] = ()
    """Each Workload whose quota a later slice took, with that slice."""
    stale: tuple[Workload, ...] = ()
    """Workloads that wait in vain and must be deleted."""
    over: tuple[Workload, ...] = ()
    """Those that were Finished because a slice replaced them."""
    others: tuple[Workload, ...] = ()
    """The remaining Workloads of a job without quota, the newest first."""


def slices_of(workloads: Sequence[Workload]) -> Slices:
    """Classifies the job's Workloads by what has to be done with them."""
    over = tuple(w for w in workloads if is_replaced(w))
    live = [w for w in workloads if w not in over]
    successors = {replaced_key(w): w for w in live if is_true(w.status.conditions, names.ADMITTED) and replaced_key(w)}
    replaced = tuple((w, successors[w.key]) for w in live if w.key in successors)
    live = [w for w in live if w.key not in successors]
    keys = {w.key for w in live}
    newest_first = sorted(live, key=lambda w: (w.metadata.creation_timestamp or "", w.metadata.name), reverse=True)
    # a slice that has quota and waits for its checks takes no place yet
    current = next((w for w in sorted(newest_first, key=lambda w: replaced_key(w) in keys) if _has_quota(w)), None)
    waiting = sorted((w for w in live if replaced_key(w) in keys), key=lambda w: w.metadata.name)
    if current is None:
        # an evicted one is still to be stopped
        others = sorted((w for w in newest_first if w not in waiting), key=lambda w: w.status.admission is None)
        return Slices(None, None, replaced, tuple(waiting), over, tuple(others))
    after = [w for w in waiting if replaced_key(w) == current.key and not w.metadata.deletion_timestamp]
    following = after[0] if after else None
    stale = tuple(w for w in live if w is not current and w is not following)
    return Slices(current, following, replaced, stale, over)


def _has_quota(workload: Workload) -> bool:
    state = workload.status.conditions
    reserved = is_true(state, names.QUOTA_RESERVED) and workload.status.admission is not None
    return reserved and not (
        is_true(state, names.EVICTED) or is_true(state, names.FINISHED) or workload.metadata.deletion_timestamp
    )


def shrunk(workload: Workload, wanted: Counts) -> dict[str, Any] | None:
    """Returns the patch that lowers the Workload's counts to the job's, or None if no pod set has more pods."""
    pod_sets = workload.spec.pod_sets
    less = {p.name: min(p.count, wanted.get(p.name, p.count)) for p in pod_sets}
    if less == counts_of(pod_sets):
        return None
    return {"spec": {"podSets": [pod_set.to_wire() for pod_set in with_counts(pod_sets, less)]}}


def slice_annotations(current: Workload) -> dict[str, str]:
    """Returns the annotations by which the next slice names the slice that it will replace."""
    _, first = split_key(first_key(current))
    return {**marks_of(first), names.REPLACEMENT_FOR: current.key}


def counts_changed(workload: Workload, patch: dict[str, Any]) -> PatchWorkload:
    """Returns the action that patches the counts of a slice."""
    event = PlannedEvent("UpdatedWorkload", UPDATED.format(workload.key))
    return PatchWorkload(workload, patch, (event,))


def replacement_message(by: Workload) -> str:
    """Returns the Finished message of the replaced slice, in Kueue's words."""
    job = by.metadata.labels.get(names.JOB_UID_LABEL, "")
    return (
        f"Replaced to accommodate a workload (UID: {by.metadata.uid}, JobUID: {job}) due to workload slice aggregation"
    )
