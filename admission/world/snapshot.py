"""A snapshot: the complete input of the engine's next decision as one JSON document, from which it makes the same decision.

It holds the engine's input values (not the API objects), the options, the time, and past decisions that still matter:
inadmissible workloads and their queueing hints; preemptors, their victims and reservations; the nodes that hold capacity for
admitted pods that are not bound yet; held hosts; failed nodes of workloads; workloads whose pods are not ready. Equal states
give equal bytes, and loading and capturing a snapshot reproduces it. Each object is one line, so that snapshots can be
compared with diff. Maps keep their order, because messages may depend on it.

Called by `stowage snapshot`, by the controller's page /snapshot (admission/app.py), and by `stowage simulate`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import inf
from typing import Any, Final

import msgspec

from admission.engine.features import NodeHolds, held_records
from admission.engine.ledger.holds import BESIDE_PODS, OF_FLAVORS, HoldKind
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    BoundPod,
    ClusterQueue,
    Cohort,
    Event,
    Flavor,
    Namespace,
    Node,
    NodeHold,
    Payer,
    PlacementOptions,
    Workload,
)
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.evictions import EvictedPair
from admission.engine.queue.memory import QueueMemory
from admission.engine.queue.past_usage import UsageRecord, UsageRules
from admission.engine.queue.pending import KeptRequest, StartReservation
from admission.engine.quota.fairness import FairSharingRules
from admission.engine.scheduler_state import SchedulerState
from admission.world.snapshot_records import (
    CohortRecord,
    HeldCapacityRecord,
    InadmissibleRecord,
    KeptRecord,
    ReservationRecord,
    ShortRecord,
    StartRecord,
    cohort_of,
    cohort_record,
    hint_of,
    hint_record,
    hold_places,
    recorded_reason,
    reservation_of,
    reservation_record,
    start_record,
)
from admission.world.world import Arrival, WorkloadFacts, World
from api.errors import InvalidObject

FORMAT: Final = "stowage.dev/snapshot/v1"

# JSON has no infinity. Negative values are free: no backoff ends before the epoch, and no run time is negative.
_NEVER: Final = -1.0


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot; the module's docstring says what it contains.

    `at` is in epoch seconds. `workloads` are admitted, `pending` wait. `evictions` has the latest eviction of each pair of
    workloads. `spares` are held beside pods and of flavors (`flavor_spares`); `spares_settled` names workloads that lack some,
    while no capacity has become free since. `places` are held for waiting workloads while others leave them. `unforeseen`
    names heads whose start is unknown. `failed` maps running workloads to failed nodes that are to
    be replaced. With `one_by_one`, a workload is admitted only when the pods of all others are ready; `unready` names
    workloads whose pods are not. `usage_rules` and `usage` are the rules of admission fair sharing and the past
    usage of LocalQueues. `payers` pay for bound pods without an admission.
    """

    format: str = FORMAT
    at: float
    budget: int
    options: PlacementOptions
    sharing: FairSharingRules | None = None
    flavors: tuple[Flavor, ...] = ()
    reservations: tuple[NodeHolds, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    cohorts: tuple[CohortRecord, ...] = ()
    cluster_queues: tuple[ClusterQueue, ...] = ()
    nodes: tuple[Node, ...] = ()
    workloads: tuple[Workload, ...] = ()
    pods: tuple[BoundPod, ...] = ()
    payers: tuple[Payer, ...] = ()
    pending: tuple[Workload, ...] = ()
    refused: tuple[InadmissibleRecord, ...] = ()
    short: tuple[ShortRecord, ...] = ()
    untold: tuple[str, ...] = ()
    returning: tuple[str, ...] = ()
    promised: tuple[ReservationRecord, ...] = ()
    claims: tuple[ReservationRecord, ...] = ()
    reserved: tuple[StartRecord, ...] = ()
    unforeseen: tuple[str, ...] = ()
    kept: tuple[KeptRecord, ...] = ()
    evictions: tuple[EvictedPair, ...] = ()
    rooms: tuple[HeldCapacityRecord, ...] = ()
    spares: tuple[Workload, ...] = ()
    flavor_spares: tuple[held_records.OfFlavor, ...] = ()
    spares_settled: tuple[str, ...] = ()
    places: tuple[Workload, ...] = ()
    failed: dict[str, tuple[str, ...]] = {}
    one_by_one: bool = False
    unready: tuple[str, ...] = ()
    usage_rules: UsageRules | None = None
    usage: tuple[UsageRecord, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    about: dict[str, WorkloadFacts] = {}

    def encode(self) -> bytes:
        """Returns the snapshot as JSON, one object per line."""
        fields = []
        for name, value in msgspec.structs.asdict(self).items():
            body = _lines(value) if isinstance(value, tuple) else msgspec.json.encode(value)
            fields.append(msgspec.json.encode(name) + b": " + body)
        return b"{\n" + b",\n".join(fields) + b"\n}\n"


def _lines(values: tuple[Any, ...]) -> bytes:
    return b"[\n" + b",\n".join(map(msgspec.json.encode, values)) + b"\n]" if values else b"[]"


_decoder: Final = msgspec.json.Decoder(Snapshot)


def is_snapshot(document: object) -> bool:
    """Reports whether a decoded JSON document is a snapshot of any version."""
    return isinstance(document, Mapping) and str(document.get("format", "")).startswith("stowage.dev/snapshot/")


def decode(data: bytes, where: str = "snapshot") -> Snapshot:
    """Decodes a snapshot from JSON. Raises InvalidObject with `where` and the field."""
    try:
        snapshot = _decoder.decode(data)
    except msgspec.MsgspecError as bad:
        raise InvalidObject("snapshot", where, f"cannot be read: {bad}", where) from None
    if snapshot.format != FORMAT:
        raise InvalidObject("format", snapshot.format, f"must be {FORMAT}", where)
    return snapshot


def capture(
    state: SchedulerState,
    now: float,
    budget: int,
    sharing: FairSharingRules | None = None,
    *,
    arrivals: Sequence[Arrival] = (),
    about: Mapping[str, WorkloadFacts] | None = None,
    failed: Mapping[str, Sequence[str]] | None = None,
    unready: Collection[str] | None = None,
) -> Snapshot:
    """Returns the state of ledger and queues at `now` (epoch seconds), as the next cycle would start with it.

    `failed` maps workloads to failed nodes, in order of failure. `unready` is None if no workload waits for pods of others.
    Backoffs that have ended by `now` are ended; nothing else changes. O(objects).
    """
    state.queues.due(now)
    records: dict[type, tuple[Any, ...]] = {
        kind: tuple(events) for kind, events in groupby(state.ledger.inputs(), key=type)
    }
    rooms, memory = sorted(state.ledger.assumed_pods().items()), state.queues.memory()
    return Snapshot(
        at=now,
        budget=budget,
        options=state.ledger.options,
        sharing=sharing,
        flavors=records.get(Flavor, ()),
        namespaces=records.get(Namespace, ()),
        cohorts=tuple(map(cohort_record, records.get(Cohort, ()))),
        cluster_queues=records.get(ClusterQueue, ()),
        reservations=tuple(one for kind, holds in records.items() if issubclass(kind, NodeHold) for one in holds),
        nodes=records.get(Node, ()),
        workloads=tuple(map(_finite, records.get(Workload, ()))),
        pods=records.get(BoundPod, ()),
        payers=records.get(Payer, ()),
        pending=tuple(_finite(w) for w in sorted(state.queues.workloads(), key=order_of)),
        refused=tuple(
            InadmissibleRecord(key, *why, hint_record(memory.hints.get(key)), key in memory.blocking)
            for key, why in sorted(state.queues.refusals().items())
        ),
        short=tuple(ShortRecord(key, why, hint_record(hint)) for key, (why, hint) in sorted(memory.short.items())),
        untold=tuple(sorted(memory.unevaluated)),
        returning=tuple(sorted(memory.returning)),
        promised=tuple(
            reservation_record(one.key, reservation)
            for one, reservation in sorted(state.queues.capacity_reservations(), key=lambda pair: order_of(pair[0]))
        ),
        claims=tuple(reservation_record(*one) for one in sorted(state.queues.preemptors.items())),
        reserved=tuple(
            start_record(*one) for one in sorted(state.queues.starts.all(), key=lambda start: order_of(start[0]))
        ),
        unforeseen=tuple(sorted(memory.unforeseen)),
        kept=tuple(
            KeptRecord(one.key, kept.admission, kept.level)
            for one, kept in sorted(state.queues.kept(), key=lambda each: order_of(each[0]))
        ),
        evictions=state.queues.evictions.pairs(),
        rooms=tuple(HeldCapacityRecord(*slot, nodes) for slot, nodes in rooms),
        spares=_held(state.ledger, *BESIDE_PODS, *OF_FLAVORS),
        flavor_spares=held_records.of_all_flavors(state.ledger),
        spares_settled=held_records.settled(state.ledger),
        places=_held(state.ledger, HoldKind.PLACE),
        failed={key: tuple(nodes) for key, nodes in (failed or {}).items()},
        one_by_one=unready is not None,
        unready=tuple(sorted(unready or ())),
        usage_rules=state.queues.past.rules,
        usage=tuple(state.queues.past.records()),
        arrivals=tuple(arrivals),
        about={key: _timed(one) for key, one in (about or {}).items()},
    )


def _held(ledger: Ledger, *kinds: HoldKind) -> tuple[Workload, ...]:
    """Returns what is held of these kinds: the pods of each hold, with its admission."""
    holds = ledger.holds.of_kind(*kinds)
    return tuple(_finite(replace(hold.workload, admission=hold.admission)) for hold in holds)


def capture_world(world: World) -> Snapshot:
    """Returns a snapshot of the world."""
    return capture(
        world.state,
        world.now,
        world.budget,
        world.sharing,
        arrivals=world.arrivals,
        about=world.about,
        failed=world.failed,
        unready=world.unready if world.one_by_one else None,
    )


def from_snapshot(snapshot: Snapshot) -> World:
    """Returns the world of a snapshot; its next cycle makes the same decisions as that of the original."""
    world = World(snapshot.options, now=snapshot.at, budget=snapshot.budget)
    world.sharing, world.queues.past.rules = snapshot.sharing, snapshot.usage_rules
    for event in _events(snapshot):
        world.apply(event)
    world.ledger.set_assumed_pods({(room.workload, room.pod_set, room.domain): room.nodes for room in snapshot.rooms})
    held_records.hold_again(
        world.ledger, map(_endless, snapshot.spares), snapshot.flavor_spares, snapshot.spares_settled
    )
    hold_places(
        world.ledger, map(_endless, snapshot.places), [one.key for one in (*snapshot.pending, *snapshot.workloads)]
    )
    for record in snapshot.usage:
        world.queues.past.put(record)
    for workload in snapshot.pending:
        world.apply(_endless(workload))
    world.queues.due(snapshot.at)  # a workload may have been refused again after its backoff ended
    for held in snapshot.reserved:
        world.queues.starts.reserve(
            held.workload, StartReservation(held.start, held.admission, held.level, held.found, held.firm)
        )
    for refusal in snapshot.refused:
        waits = world.queues.workload(refusal.workload)
        overtaken = waits is not None and world.queues.starts.of(waits.cluster_queue) is not None
        if refusal.blocks is not None:
            overtaken = not refusal.blocks
        hint = None if refusal.lack is None else hint_of(refusal.lack)
        reason = recorded_reason(refusal.reason)
        world.queues.refuse(refusal.workload, reason, refusal.again, overtaken=overtaken, hint=hint)
    for keeper in snapshot.kept:
        world.queues.keep(keeper.workload, KeptRequest(keeper.admission, keeper.level))
    for one in reversed(snapshot.promised):  # the first of a StrictFIFO queue last: it becomes the inadmissible head
        world.queues.reserve_capacity(one.workload, reservation_of(one))
    world.queues.preemptors.update((one.workload, reservation_of(one)) for one in snapshot.claims)
    short = {one.workload: (recorded_reason(one.reason), hint_of(one.lack)) for one in snapshot.short}
    world.queues.restore(
        QueueMemory(
            {},
            short,
            frozenset(snapshot.untold),
            frozenset(snapshot.returning),
            frozenset(snapshot.unforeseen),
            frozenset(one.workload for one in snapshot.refused if one.blocks),
        ),
        says_who_blocks=all(one.blocks is not None for one in snapshot.refused),  # older snapshots do not
    )
    world.queues.evictions.restore(snapshot.evictions)
    world.queues.take_notices()  # the original has reported them
    world.failed, world.one_by_one, world.unready = dict(snapshot.failed), snapshot.one_by_one, set(snapshot.unready)
    world.arrivals = list(snapshot.arrivals)
    world.about = {key: _untimed(one) for key, one in snapshot.about.items()}
    return world


def _events(snapshot: Snapshot) -> Iterator[Event]:
    yield from snapshot.flavors
    yield from snapshot.reservations
    yield from snapshot.namespaces
    yield from map(cohort_of, snapshot.cohorts)
    yield from snapshot.cluster_queues
    yield from snapshot.nodes
    yield from map(_endless, snapshot.workloads)
    yield from snapshot.pods
    yield from snapshot.payers


def _finite(workload: Workload) -> Workload:
    return replace(workload, not_before=_NEVER) if workload.not_before == inf else workload


def _endless(workload: Workload) -> Workload:
    return replace(workload, not_before=inf) if workload.not_before == _NEVER else workload


def _timed(about: WorkloadFacts) -> WorkloadFacts:
    return replace(about, run_for=_NEVER) if about.run_for == inf else about


def _untimed(about: WorkloadFacts) -> WorkloadFacts:
    return replace(about, run_for=inf) if about.run_for == _NEVER else about
