"""Advance reservations: who may start on the reserved nodes, before and while they are reserved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.decide import decide
from admission.engine.decision import Admit
from admission.engine.features.advance_reservations.reservation import AdvanceReservation
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Event,
    ObjectRemoved,
    RemovedKind,
    Toleration,
    TopologyRequest,
    Workload,
)
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from tests.admission.engine.builders import RACK, host, queue, racks, workload

IN_RACK = TopologyRequest(required=RACK)
START, END = 1000.0, 2000.0
MAINTENANCE = AdvanceReservation("maintenance", {RACK: "r0"}, START, END)
PLANNED = AdvanceReservation("run", {RACK: "r0"}, START, END, namespaces=frozenset({"team"}))


class Cluster:
    """Racks r0 and r1 of 2 hosts with 4 CPUs each; `busy` occupies r1."""

    def __init__(self, *events: Event, racks_there: tuple[str, ...] = ("r0",)) -> None:
        self.ledger, self.queues = Ledger(), PendingQueues()
        self.state = SchedulerState(self.ledger, self.queues)
        nodes = [host(f"{rack}h{number}", rack, 4) for rack in racks_there for number in range(2)]
        for event in (racks(), queue(tas=100), *nodes, *events):
            self.state.apply(event)

    def admitted(self, now: float) -> list[str]:
        report = decide(self.ledger, self.queues, now, 100)
        assert self.ledger.audit() == []
        return sorted(one.workload for one in report.decisions if isinstance(one, Admit))


def job(key: str, limit: float | None = None, names: str = "", pods: int = 2) -> Workload:
    return replace(workload(key, pods, 4, topology=IN_RACK), time_limit=limit, reservation=names)


def ending(job: Workload) -> Workload:
    """The job, whose pods have half a minute to end."""
    return replace(job, termination=30.0)


@pytest.mark.parametrize(
    ("reservation", "original", "now", "starts"),
    [
        pytest.param(MAINTENANCE, job("team/a"), 0.0, False, id="no-limit"),
        pytest.param(MAINTENANCE, job("team/a", 1000.0), 0.0, True, id="ends-in-time"),
        pytest.param(MAINTENANCE, job("team/a", 1000.0), 1.0, False, id="ends-a-second-late"),
        pytest.param(MAINTENANCE, ending(job("team/a", 970.0)), 0.0, True, id="its-pods-have-ended-in-time"),
        pytest.param(MAINTENANCE, ending(job("team/a", 970.0)), 1.0, False, id="its-pods-end-a-second-late"),
        pytest.param(MAINTENANCE, job("team/a", 10.0), 1500.0, False, id="short-but-within"),
        pytest.param(MAINTENANCE, job("team/a", names="maintenance"), 1500.0, False, id="nobody-may"),
        pytest.param(MAINTENANCE, job("team/a"), 2000.0, True, id="over"),
        pytest.param(PLANNED, job("team/a", names="run"), 1500.0, True, id="user"),
        pytest.param(PLANNED, job("team/a", names="run"), 0.0, True, id="user-before-the-start"),
        pytest.param(PLANNED, job("team/a"), 1500.0, False, id="does-not-name-it"),
        pytest.param(PLANNED, job("other/a", names="run"), 1500.0, False, id="of-another-namespace"),
        pytest.param(PLANNED, job("team/a", names="other"), 1500.0, False, id="names-another-one"),
    ],
)
def test_who_may_start_on_reserved_nodes(
    reservation: AdvanceReservation, original: Workload, now: float, *, starts: bool
) -> None:
    here = Cluster(reservation, original)
    assert here.admitted(now) == ([original.key] if starts else [])


def test_no_toleration_opens_reserved_nodes() -> None:
    """A pod that tolerates everything is none that the reservation is for."""
    one = job("team/a")
    [pods] = one.pod_sets
    bold = replace(one, pod_sets=(replace(pods, tolerations=(Toleration(key="", operator="Exists"),)),))
    assert Cluster(MAINTENANCE, bold).admitted(0.0) == []


def test_other_nodes_are_as_free_as_before() -> None:
    here = Cluster(MAINTENANCE, job("team/a"), job("team/b"), racks_there=("r0", "r1"))
    assert here.admitted(0.0) == ["team/a"]
    [domain] = here.ledger.admissions["team/a"].pod_sets[0].assignment.domains[:1]  # type: ignore[union-attr]
    assert domain.values[-1].startswith("r1")


def test_a_short_workload_starts_although_a_long_one_of_the_same_shape_was_refused() -> None:
    here = Cluster(MAINTENANCE, job("team/a"), job("team/b", 100.0))
    assert here.admitted(0.0) == ["team/b"]


def test_a_reservation_that_is_removed_or_moved_lets_workloads_start() -> None:
    here = Cluster(MAINTENANCE, job("team/a", 500.0))
    assert here.admitted(900.0) == []
    here.state.apply(replace(MAINTENANCE, start=1400.0))
    assert here.admitted(900.0) == ["team/a"]
    here = Cluster(MAINTENANCE, job("team/b"))
    assert here.admitted(0.0) == []
    here.state.apply(ObjectRemoved(RemovedKind.NODE_HOLD, "maintenance"))
    assert here.admitted(0.0) == ["team/b"]
    assert here.ledger.capacity.nodes["r0h0"].node == host("r0h0", "r0", 4), "the marks are gone"


def test_nodes_that_come_later_or_change_their_labels_are_reserved_by_their_labels() -> None:
    here = Cluster(MAINTENANCE, racks_there=())
    for number in range(2):
        here.state.apply(host(f"h{number}", "r0", 4))
    here.state.apply(job("team/a"))
    assert here.admitted(0.0) == []
    for number in range(2):
        here.state.apply(host(f"h{number}", "r1", 4))
    assert here.admitted(0.0) == ["team/a"]


def test_a_ledger_made_of_the_inputs_is_equal() -> None:
    here = Cluster(MAINTENANCE, replace(PLANNED, labels={RACK: "r1"}), racks_there=("r0", "r1"))
    other = Ledger()
    for event in here.ledger.inputs():
        other.apply(event)
    assert list(other.inputs()) == list(here.ledger.inputs())
    assert other.node_holds == here.ledger.node_holds
    assert [r.node for r in other.capacity.nodes.values()] == [r.node for r in here.ledger.capacity.nodes.values()]


@pytest.mark.parametrize(
    ("limit", "ends"),
    [
        pytest.param(None, False, id="a guess says nothing of when it ends"),
        pytest.param(900.0, True, id="its limit ends it by the start"),
        pytest.param(1001.0, False, id="its limit ends it after the start"),
    ],
)
def test_a_running_workload_that_overtook_another_by_its_guess_ends_by_its_limit_alone(
    limit: float | None, ends: bool
) -> None:
    """It may be evicted for a head from 500 on, and not for the reservation."""
    running = replace(workload("ns/w"), admitted=0.0, yields=500.0, time_limit=limit)
    assert MAINTENANCE.usable_by(running, 10.0) is ends
