"""The records of a snapshot: what of the engine's values JSON cannot hold as it is, and what stands beside them. Values only.

Called by snapshot.py.
"""

from __future__ import annotations

from typing import overload

import msgspec

from admission.engine.decision import Reason
from admission.engine.model import Admission, Cohort, FlavorResource, Quota, Workload
from admission.engine.queue.pending import CapacityReservation, StartReservation
from admission.engine.queue.queueing_hints import QueueingHint


class CohortQuota(msgspec.Struct, frozen=True):
    """One entry of a Cohort's quotas."""

    flavor: str
    resource: str
    quota: Quota


class CohortRecord(msgspec.Struct, frozen=True):
    """A Cohort: in JSON a pair cannot be a key."""

    name: str
    parent: str | None
    quotas: tuple[CohortQuota, ...]
    weight_milli: int


class HintRecord(msgspec.Struct, frozen=True):
    """What a refused workload waits for; as Lack has it (engine/queue/lacks.py), in order."""

    quota: tuple[tuple[FlavorResource, int], ...] | None = None
    rooms: tuple[str, ...] | None = None
    priority: int | None = None


class InadmissibleRecord(msgspec.Struct, frozen=True):
    """An inadmissible workload: why, from when on it asks for less (epoch seconds), its queueing hint.

    `blocks`: whether nothing of its StrictFIFO queue passes it; None in a snapshot that does not say so.
    """

    workload: str
    reason: Reason
    again: float | None = None
    lack: HintRecord | None = None
    blocks: bool | None = None


class ShortRecord(msgspec.Struct, frozen=True):
    """A workload that is to be considered again: why it was refused last, for want of how much quota."""

    workload: str
    reason: Reason
    lack: HintRecord


class ReservationRecord(msgspec.Struct, frozen=True):
    """What a pending workload gets when its victims have left, how far it borrows then, and what others get with it.

    `lack`: the quota that is short until then; none: any change may let it start. `evicted`: all workloads that are evicted
    for it, since `since` (epoch seconds).
    """

    workload: str
    victims: tuple[str, ...]
    admission: Admission
    level: int = 0
    beside: tuple[tuple[str, Admission], ...] = ()
    lack: HintRecord | None = None
    evicted: tuple[str, ...] = ()
    since: float = 0.0


class StartRecord(msgspec.Struct, frozen=True):
    """When the head of a queue with backfill starts at the latest (epoch seconds), what it gets, how far it borrows then."""

    workload: str
    start: float
    admission: Admission
    level: int = 0
    found: float = 0.0
    firm: bool = True


class KeptRecord(msgspec.Struct, frozen=True):
    """The request of the refused head of a StrictFIFO queue, which keeps its queue's quota for it; how far it would borrow."""

    workload: str
    admission: Admission
    level: int = 0


class HeldCapacityRecord(msgspec.Struct, frozen=True):
    """Pods of one entry of an assignment that are not bound yet, by the node that holds room for them."""

    workload: str
    pod_set: str
    domain: tuple[str, ...]
    nodes: dict[str, int]


@overload
def hint_record(hint: QueueingHint) -> HintRecord: ...


@overload
def hint_record(hint: None) -> None: ...


def hint_record(hint: QueueingHint | None) -> HintRecord | None:
    """As a record."""
    if hint is None:
        return None
    rooms = None if hint.capacity is None else tuple(sorted(hint.capacity))
    return HintRecord(hint.quota, rooms, hint.priority)


def hint_of(record: HintRecord) -> QueueingHint:
    """From its record."""
    rooms = None if record.rooms is None else frozenset(record.rooms)
    return QueueingHint(record.quota, rooms, record.priority)


def reservation_record(key: str, reservation: CapacityReservation) -> ReservationRecord:
    """As a record; `key`: the workload's."""
    victims, evicted = tuple(sorted(reservation.victims)), tuple(sorted(reservation.evicted))
    p = reservation
    return ReservationRecord(key, victims, p.admission, p.level, p.beside, hint_record(p.hint), evicted, p.since)


def reservation_of(record: ReservationRecord) -> CapacityReservation:
    """From its record."""
    hint = None if record.lack is None else hint_of(record.lack)
    evicted = frozenset(record.evicted)
    return CapacityReservation(
        record.admission, frozenset(record.victims), record.level, record.beside, hint, evicted, record.since
    )


def start_record(workload: Workload, reservation: StartReservation) -> StartRecord:
    """As a record."""
    r = reservation
    return StartRecord(workload.key, r.start, r.admission, r.level, r.found, r.firm)


def cohort_record(cohort: Cohort) -> CohortRecord:
    """As a record."""
    quotas = tuple(CohortQuota(*pair, quota) for pair, quota in cohort.quotas.items())
    return CohortRecord(cohort.name, cohort.parent, quotas, cohort.weight_milli)


def cohort_of(record: CohortRecord) -> Cohort:
    """From its record."""
    quotas: dict[FlavorResource, Quota] = {(entry.flavor, entry.resource): entry.quota for entry in record.quotas}
    return Cohort(record.name, record.parent, quotas, record.weight_milli)
