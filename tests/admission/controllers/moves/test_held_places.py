"""How long a place is held for a gang, whatever its movers and victims do.

`ns/mover` leaves h0 for h2, and `ns/victim` is to be evicted from h1. The holds are looked at once a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

import pytest

from admission.controllers.moves.places import GRACE, LONGEST, HeldPlaces
from admission.controllers.state import moving
from admission.controllers.watch.cluster_view import Views
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import MovePlan
from admission.engine.ledger.holds import Hold, HoldKind
from admission.engine.model import ObjectRemoved, RemovedKind
from admission.engine.queue.queues import PendingQueues
from api.meta import ObjectMeta
from api.names import ADMITTED, EVICTED, FINISHED
from api.workloads import Workload, WorkloadStatus
from tests.admission.engine.features.moves.clusters import NOW, Running, cluster, gang, hosts_of, own
from tests.builders import condition

MOVER, VICTIM = "ns/mover", "ns/victim"


@dataclass
class HeldRack:
    """The place of `ns/gang` is held from second 0 on; `changes` happen at their second."""

    changes: dict[int, Callable[[HeldRack], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        runs = {
            MOVER: Running({"h0": 1}),
            VICTIM: Running({"h1": 1}, priority=-1),
            "full": Running({"h3": 4}, priority=5),
        }
        self.ledger = cluster(runs, own(within="LowerPriority"))
        made = plan(self.ledger, gang(), NOW, PlanOptions())
        assert isinstance(made, MovePlan)
        assert made.admission is not None
        (move,) = (one for one in made.moves if one.workload == MOVER)
        assert hosts_of(move.after) == {"h2": 1}
        mover = self.ledger.workload(MOVER)
        assert mover is not None
        self.ledger.charge(mover, move.after)
        self.ledger.holds.put(Hold.of(HoldKind.PLACE, gang(), made.admission))
        status = moving.begun(_status(ADMITTED), "", NOW)
        self.objects = {MOVER: Workload(metadata=ObjectMeta(name="mover", namespace="ns"), status=status)}
        views = cast("Views", SimpleNamespace(workloads=SimpleNamespace(objects=self.objects)))
        self.places = HeldPlaces(views, self.ledger, PendingQueues())
        self.places.add("ns/gang", (MOVER,), NOW, [VICTIM])

    def ends(self) -> int:
        """The second at which the hold ends."""
        for second in range(int(2 * LONGEST)):
            if (change := self.changes.get(second)) is not None:
                change(self)
            if self.places.overdue(NOW + second):
                return second
        raise AssertionError("the place is held for ever")

    def has(self, status: WorkloadStatus) -> None:
        """The mover's status is this."""
        self.objects[MOVER] = self.objects[MOVER].model_copy(update={"status": status})


def _status(*kinds: str) -> WorkloadStatus:
    return WorkloadStatus.model_validate({"conditions": [condition(kind) for kind in kinds]})


def pods_end(rack: HeldRack) -> None:
    rack.ledger.apply(ObjectRemoved(RemovedKind.POD, f"{MOVER}-h0-0"))


def arrives(rack: HeldRack) -> None:
    pods_end(rack)
    rack.has(moving.ended(rack.objects[MOVER].status, NOW))


def deleted(rack: HeldRack) -> None:
    del rack.objects[MOVER]
    rack.ledger.apply(ObjectRemoved(RemovedKind.WORKLOAD, MOVER))


def victim_leaves(rack: HeldRack) -> None:
    for kind, key in ((RemovedKind.WORKLOAD, VICTIM), (RemovedKind.POD, f"{VICTIM}-h1-0")):
        rack.ledger.apply(ObjectRemoved(kind, key))


def victim_starts_anew(rack: HeldRack) -> None:
    victim = rack.ledger.workload(VICTIM)
    assert victim is not None
    rack.ledger.apply(replace(victim, reserved=NOW + 1, admission=rack.ledger.admission(VICTIM)))


AFTER = int(GRACE) + 1
"""Seconds from the last one's end to that of the hold: something else is in the gang's way."""


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        pytest.param({5: arrives, 20: victim_leaves}, 20 + AFTER, id="both leave"),
        pytest.param({5: victim_leaves}, LONGEST + 1, id="the mover never ends its pods"),
        pytest.param({5: arrives}, LONGEST + 1, id="the eviction is never written"),
        pytest.param({5: arrives, 7: victim_starts_anew}, 7 + AFTER, id="the victim has left and started anew"),
        pytest.param({1: victim_leaves, 5: deleted, 60: pods_end}, 60 + AFTER, id="the mover's job is deleted"),
        pytest.param(
            {1: victim_leaves, 5: lambda rack: rack.has(_status(ADMITTED, EVICTED)), 60: pods_end},
            60 + AFTER,
            id="the mover's job is suspended by its owner",
        ),
        pytest.param(
            {1: victim_leaves, 5: lambda rack: rack.has(_status(ADMITTED, FINISHED)), 6: pods_end},
            6 + AFTER,
            id="the mover completes",
        ),
    ],
)
def test_a_hold_lasts_until_all_have_left_and_never_for_ever(
    changes: dict[int, Callable[[HeldRack], None]], ends: int
) -> None:
    rack = HeldRack(changes)
    assert rack.ends() == ends
    assert rack.ledger.audit() == []
