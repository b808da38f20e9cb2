"""The JSON records of a snapshot, for engine values that JSON cannot represent directly. Called by snapshot.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import overload

import msgspec

from admission.engine.features import reason_of
from admission.engine.ledger.holds import Hold, HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, Cohort, FlavorResource, Quota, Workload
from admission.engine.queue.pending import CapacityReservation, StartReservation
from admission.engine.queue.queueing_hints import QueueingHint
from admission.engine.reasons import Reason, ReasonCode


class CohortQuota(msgspec.Struct, frozen=True):
    """The quota of one flavor and resource in a Cohort."""

    flavor: str
    resource: str
    quota: Quota


class CohortRecord(msgspec.Struct, frozen=True):
    """A Cohort. Its quotas are a list, because a pair cannot be a key in JSON."""

    name: str
    parent: str | None
    quotas: tuple[CohortQuota, ...]
    weight_milli: int


class HintRecord(msgspec.Struct, frozen=True):
    """A QueueingHint (engine/queue/queueing_hints.py) of a refused workload, sorted."""

    quota: tuple[tuple[FlavorResource, int], ...] | None = None
    rooms: tuple[str, ...] | None = None
    priority: int | None = None


class InadmissibleRecord(msgspec.Struct, frozen=True):
    """An inadmissible workload: the reason, the time (epoch seconds) at which its topology request relaxes, its queueing hint.

    `blocks` says whether it blocks its StrictFIFO queue; None in snapshots of older versions.
    """

    workload: str
    reason: str
    again: float | None = None
    lack: HintRecord | None = None
    blocks: bool | None = None


class ShortRecord(msgspec.Struct, frozen=True):
    """A workload that is to be evaluated again, with the reason of its last refusal and the missing quota."""

    workload: str
    reason: str
    lack: HintRecord


class ReservationRecord(msgspec.Struct, frozen=True):
    """The reservation of a preemptor: what it gets when its victims have left, and what others get together with it.

    `level` is how far up the cohort tree it borrows. `lack` is the missing quota until then; None if any change may admit
    it. `evicted` lists all workloads evicted for it, the first of them at `since` (epoch seconds).
    """

    workload: str
    victims: tuple[str, ...]
    admission: Admission
    level: int = 0
    beside: tuple[tuple[str, Admission], ...] = ()
    lack: HintRecord | None = None
    evicted: tuple[str, ...] = ()
    since: float = 0.0
    spares: tuple[tuple[str, Admission], ...] = ()


class StartRecord(msgspec.Struct, frozen=True):
    """The latest start (epoch seconds) that is reserved for the head of a queue, its admission, and how far it borrows then."""

    workload: str
    start: float
    admission: Admission
    level: int = 0
    found: float = 0.0
    firm: bool = True


class KeptRecord(msgspec.Struct, frozen=True):
    """The request of a StrictFIFO queue's refused head, for which its quota is kept, and how far it would borrow."""

    workload: str
    admission: Admission
    level: int = 0


class HeldCapacityRecord(msgspec.Struct, frozen=True):
    """Unbound pods of one domain of an assignment, by the node that holds capacity for them."""

    workload: str
    pod_set: str
    domain: tuple[str, ...]
    nodes: dict[str, int]


def hold_places(ledger: Ledger, holds: Iterable[Workload], owners: Iterable[str]) -> None:
    """Holds the places of a snapshot for those of the owners that have one."""
    keys = {hold_key(HoldKind.PLACE, key): key for key in owners}
    for pods in holds:
        if pods.admission is not None and pods.key in keys:
            ledger.holds.put(Hold(HoldKind.PLACE, keys[pods.key], replace(pods, admission=None), pods.admission))


def recorded_reason(code: str) -> ReasonCode:
    """Returns the reason of a record; one of a feature that is left out here becomes that of a workload not yet evaluated."""
    return reason_of(code) or Reason.PENDING_EVALUATION


@overload
def hint_record(hint: QueueingHint) -> HintRecord: ...


@overload
def hint_record(hint: None) -> None: ...


def hint_record(hint: QueueingHint | None) -> HintRecord | None:
    """Returns the record of a hint."""
    if hint is None:
        return None
    rooms = None if hint.capacity is None else tuple(sorted(hint.capacity))
    return HintRecord(hint.quota, rooms, hint.priority)


def hint_of(record: HintRecord) -> QueueingHint:
    """Returns the hint of a record."""
    rooms = None if record.rooms is None else frozenset(record.rooms)
    return QueueingHint(record.quota, rooms, record.priority)


def reservation_record(key: str, reservation: CapacityReservation) -> ReservationRecord:
    """Returns the record of a workload's reservation."""
    victims, evicted = tuple(sorted(reservation.victims)), tuple(sorted(reservation.evicted))
    p = reservation
    return ReservationRecord(
        key, victims, p.admission, p.level, p.beside, hint_record(p.hint), evicted, p.since, p.spares
    )


def reservation_of(record: ReservationRecord) -> CapacityReservation:
    """Returns the reservation of a record."""
    hint = None if record.lack is None else hint_of(record.lack)
    evicted = frozenset(record.evicted)
    return CapacityReservation(
        record.admission,
        frozenset(record.victims),
        record.level,
        record.beside,
        hint,
        evicted,
        record.since,
        record.spares,
    )


def start_record(workload: Workload, reservation: StartReservation) -> StartRecord:
    """Returns the record of a workload's start reservation."""
    r = reservation
    return StartRecord(workload.key, r.start, r.admission, r.level, r.found, r.firm)


def cohort_record(cohort: Cohort) -> CohortRecord:
    """Returns the record of a Cohort."""
    quotas = tuple(CohortQuota(*pair, quota) for pair, quota in cohort.quotas.items())
    return CohortRecord(cohort.name, cohort.parent, quotas, cohort.weight_milli)


def cohort_of(record: CohortRecord) -> Cohort:
    """Returns the Cohort of a record."""
    quotas: dict[FlavorResource, Quota] = {(entry.flavor, entry.resource): entry.quota for entry in record.quotas}
    return Cohort(record.name, record.parent, quotas, record.weight_milli)
