"""What the bookings should have charged, computed from the kept admissions and pods, against what the books say.

Called by Ledger.audit. Where an assumed pod lies is history and cannot be computed anew; that all pods of an entry are
somewhere, and that the books hold just what the entries say, can.
"""

from __future__ import annotations

from collections.abc import Iterator

from admission.engine.model import BoundPod
from admission.engine.topology.allocation.booking import Bookings
from admission.engine.topology.allocation.capacity import Capacity, Kind, Spot, book_key
from admission.engine.topology.allocation.shares import Share, held
from admission.engine.topology.usage import Book, Vector, book_add, times


def differences(bookings: Bookings, capacity: Capacity) -> Iterator[str]:
    """What does not agree with the kept admissions and pods."""
    yield from _wrong_usage(bookings, capacity)
    yield from _wrong_foreign(bookings, capacity)
    yield from _wrong_cover(bookings)
    yield from _wrong_slots(bookings, capacity)


def _wrong_usage(bookings: Bookings, capacity: Capacity) -> Iterator[str]:
    wanted: dict[int, Book] = {}  # by the identity of the book that it stands in
    for booking in bookings.by_workload.values():
        for share in booking.shares.values():
            for spot, vector in _charged(bookings, capacity, share):
                book_add(wanted.setdefault(id(capacity.book(spot)), {}), book_key(spot), vector)
    for kind, book in capacity.all_books():
        due = wanted.get(id(book), {})
        wrong = [key for key in due.keys() | book.keys() if due.get(key, {}) != book.get(key, {})]
        for key in sorted(wrong, key=str):
            where = "/".join(key) if isinstance(key, tuple) else str(key)
            yield f"usage of {kind.value} {where} is {book.get(key, {})}, its workloads take {due.get(key, {})}"


def _charged(bookings: Bookings, capacity: Capacity, share: Share) -> Iterator[tuple[Spot, Vector]]:
    if not share.by_node:
        yield share.spot, times(share.vector, share.count)
        return
    for node, count in share.assumed.items():
        yield Spot(Kind.NODE, share.flavor, (node,)), times(share.vector, count)
    for pod in (bookings.pods[key] for key in share.covered):
        yield Spot(Kind.NODE, share.flavor, (pod.node,)), capacity.columns.vector(held(pod))


def _wrong_foreign(bookings: Bookings, capacity: Capacity) -> Iterator[str]:
    wanted: dict[str, dict[int, int]] = {}
    for pod in bookings.pods.values():
        slot = bookings.slot_of.get(pod.key)
        share = None if slot is None else bookings.share_of(slot)
        for column, amount in _as_foreign(bookings, capacity, pod, share):
            entry = wanted.setdefault(pod.node, {})
            entry[column] = entry.get(column, 0) + amount
    have = {name: book.foreign for name, book in capacity.nodes.items() if book.foreign}
    for name in sorted(wanted.keys() | have.keys()):
        want = {column: amount for column, amount in wanted.get(name, {}).items() if amount}
        if want != have.get(name, {}):
            yield f"foreign pods on node {name} take {have.get(name, {})} by the book, in truth {want}"


def _as_foreign(bookings: Bookings, capacity: Capacity, pod: BoundPod, share: Share | None) -> Vector:
    if share is None:
        return capacity.columns.vector(held(pod))
    return () if share.by_node else bookings.surplus(share, pod)


def _wrong_cover(bookings: Bookings) -> Iterator[str]:
    for key, booking in bookings.by_workload.items():
        for (pod_set, values), share in booking.shares.items():
            where = f"workload {key}, pod set {pod_set}, domain {'/'.join(values)}"
            if len(share.covered) > share.count or share.unplaced < 0:
                yield f"{where}: more pods than its {share.count}"
            if share.excess and len(share.covered) < share.count:
                yield f"{where}: pods in excess while there is room"
            wrong = [pod for pod in share.covered if bookings.slot_of.get(pod) != (key, pod_set, values)]
            yield from (f"{where}: pod {pod} is not covered here" for pod in wrong)
    for pod in bookings.pods.values():
        wanted = None if pod.key in bookings.slot_of else bookings.slot_for(pod)
        share_there = None if wanted is None else bookings.share_of(wanted)
        if share_there is not None and len(share_there.covered) < share_there.count:
            yield f"pod {pod.key} is foreign though its workload's admission has room for it"


def _wrong_slots(bookings: Bookings, capacity: Capacity) -> Iterator[str]:
    for pod, slot in bookings.slot_of.items():
        share_of = bookings.share_of(slot)
        if share_of is None or pod not in share_of.covered:
            yield f"pod {pod} is covered by an admission that does not count it"
        elif capacity.domain_of(bookings.pods[pod].node, share_of.levels) != share_of.values:
            yield f"pod {pod} is covered outside its domain"
