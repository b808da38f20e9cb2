"""Growth of an elastic job: how many of its new pods start now, and where. Pure; called by feature.py.

The new Workload of the job (its slice) requests all pods, old and new, and replaces the admitted one. It is evaluated as if
the admitted one were gone: the quota of the latter counts as free, and its pods keep their flavors and places
(topology/assignments/resize.py). The slice starts if at least one more pod fits. It gets as many of the new pods as fit, found
by bisection; the job requests the rest with its next slice. No workload is evicted for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.solve import RESERVED, LeavesQuota, Unsolved, flavors_of, place
from admission.engine.flavors.assign import Mode
from admission.engine.flavors.search import Scope
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, Assignment, ClusterQueue, PlacementRequest, Workload
from admission.engine.reasons import Reason
from admission.engine.requests import placement_requests
from admission.engine.topology.assignments.assignment_parts import first_pods, stale

OTHER_QUEUE = "it cannot take the place of {}, which has its quota in ClusterQueue {}"
NOTHING_MORE = "it asks for no pod more than {} has"


@contextmanager
def slice_released(ledger: Ledger, workload: Workload) -> Iterator[Admission | None]:
    """Opens a trial in which the replaced slice holds nothing; yields the admission that the replaced slice had."""
    held = ledger.admission(workload.replaces)
    if held is None:
        yield None
        return
    with ledger.trial():
        ledger.remove_with_pods(workload.replaces)
        yield held


def grow(
    ledger: Ledger,
    workload: Workload,
    queue: ClusterQueue,
    now: float,
    leaves_quota: LeavesQuota,
    *,
    fair: bool = False,
) -> Nomination | Unsolved:
    """Returns the slice with the largest number of pods that fit, or why not even one more fits. `now` is epoch seconds.

    `workload.replaces` must be charged to the ledger.
    """
    with slice_released(ledger, workload) as held:
        if held is None or held.cluster_queue != queue.name:
            text = OTHER_QUEUE.format(workload.replaces, "" if held is None else held.cluster_queue)
            return Unsolved(workload.key, Reason.MISCONFIGURED, text)
        had = {pod_set.name: pod_set.count for pod_set in held.pod_sets}
        more = [max(0, pod_set.count - had.get(pod_set.name, 0)) for pod_set in workload.pod_sets]
        total = sum(more)
        if not total:
            return Unsolved(workload.key, Reason.MISCONFIGURED, NOTHING_MORE.format(workload.replaces))
        best: Nomination | None = None
        least, low, high = None, 0, total
        while low < high:
            left_out = (low + high) // 2 if best or low else 0
            nomination = _fit(ledger, _without(workload, more, left_out), queue, now, leaves_quota, held, fair=fair)
            if isinstance(nomination, Nomination):
                best, high = nomination, left_out
            else:
                least, low = nomination, left_out + 1
        assert best is not None or least is not None  # noqa: S101  one of them was found for each number that was tried
        return best or least  # type: ignore[return-value]  # as asserted


def one_pod_more(workload: Workload, held: Admission) -> Workload:
    """Returns the slice with one pod more than the slice that it replaces: the least that would let it start. It replaces no
    other workload.
    """
    had = {pod_set.name: pod_set.count for pod_set in held.pod_sets}
    more = [max(0, pod_set.count - had.get(pod_set.name, 0)) for pod_set in workload.pod_sets]
    return replace(_without(workload, more, max(0, sum(more) - 1)), replaces="")


def _without(workload: Workload, more: list[int], left_out: int) -> Workload:
    """Returns the slice without this many of its new pods, taken from the pod sets in proportion to their requests."""
    total, cut = sum(more), list[int]()
    for each in more:
        share = -(-left_out * each // total) if total else 0
        cut.append(min(share, left_out - sum(cut)))
    pod_sets = (replace(p, count=p.count - less) for p, less in zip(workload.pod_sets, cut, strict=True))
    return replace(workload, pod_sets=tuple(pod_sets))


def _fit(
    ledger: Ledger,
    workload: Workload,
    queue: ClusterQueue,
    now: float,
    leaves_quota: LeavesQuota,
    held: Admission,
    *,
    fair: bool,
) -> Nomination | Unsolved:
    kept = {(got.name, resource): flavor for got in held.pod_sets for resource, flavor in got.flavors.items()}
    flavors = flavors_of(ledger, workload, queue, Scope(kept=kept, fair=fair))
    if flavors.mode is not Mode.FIT:
        return Unsolved(workload.key, flavors.reason, flavors.message(), flavors)
    if not leaves_quota(queue.name, flavors):
        return Unsolved(workload.key, Reason.WAITING_FOR_QUOTA, RESERVED, flavors)
    places = {got.name: got.assignment for got in held.pod_sets}
    requests = [
        replace(request, previous=places.get(request.pod_set.name))
        for request in placement_requests(workload, queue, flavors, ledger.flavors, now)
    ]
    placed = _places(ledger, requests)
    if isinstance(placed, str):
        return Unsolved(workload.key, Reason.TOPOLOGY_PLACEMENT_FAILED, placed, flavors)
    return Nomination(workload, flavors, placed)


def _places(ledger: Ledger, requests: Sequence[PlacementRequest]) -> dict[str, Assignment] | str:
    """Returns the domains of each pod set, or why one has none. Each is placed beside the pods that the others keep and got."""
    places: dict[str, Assignment] = {}
    for request in requests:
        if request.previous is None:
            continue
        tree = ledger.capacity.trees.get(request.flavor)
        if tree is None or (gone := stale(tree, request.previous)) is not None:
            where = f"{'/'.join(gone.values)} is" if tree is not None and gone is not None else "its nodes are"
            return (
                f"pod set {request.pod_set.name}: {where} not in the topology; it grows when its pods there were moved"
            )
        places[request.pod_set.name] = first_pods(request.previous, request.count)
    for members in _together(requests):
        mine = {member.pod_set.name for member in members}
        others = [(r, places[r.pod_set.name]) for r in requests if r.pod_set.name in places.keys() - mine]
        with ledger.trial():
            ledger.placement.assume(others)
            result = place(ledger, members)
        if not result.fits:
            return next(iter(result.failures.values())).message
        places.update(result.assignments)
    return places


def _together(requests: Sequence[PlacementRequest]) -> list[list[PlacementRequest]]:
    """Groups the pod sets of one placement group, at the position of the first of them."""
    groups: dict[str, list[PlacementRequest]] = {}
    for request in requests:
        topology = request.pod_set.topology
        name = (
            f"group {topology.group}" if topology is not None and topology.group else f"pod set {request.pod_set.name}"
        )
        groups.setdefault(name, []).append(request)
    return list(groups.values())
