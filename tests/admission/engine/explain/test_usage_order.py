"""What a workload is told, and when it is expected to start, where past usage orders its queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.cycle.held_capacity import held_beside_quota
from admission.engine.explain.usage_order import charged_node_holds, less_used
from admission.engine.features.advance_reservations.reservation import AdvanceReservation
from admission.engine.features.forecast.inputs import inputs_of
from admission.engine.features.forecast.run_times import RunEstimate
from admission.engine.features.forecast.starts import forecast
from admission.engine.ledger.holds import Hold, HoldKind, hold_key
from admission.engine.model import Admission, Flavor, PodSetAdmission, Workload
from admission.engine.queue.past_usage import UsageRules
from admission.world.world import World
from tests.admission.engine.builders import CPU, RACK, host, queue, racks, workload

HOUR = 3600.0
NOW = 10 * HOUR


def world(used: dict[str, int], *, by_usage: bool = True) -> World:
    """A queue of 4 CPUs; each LocalQueue has used so many CPUs, and one workload of it waits: `first` is the oldest."""
    made = World(now=NOW)
    made.queues.past.rules = UsageRules(half_life=HOUR, interval=HOUR)
    made.apply(Flavor("f"))
    made.apply(replace(queue(f=4), by_usage=by_usage))
    for number, (name, cpus) in enumerate(used.items()):
        made.queues.past.restore(f"ns/{name}", {"cpu": cpus * 1000.0}, NOW)
        made.apply(waiting(name, queued=float(number)))
    return made


def waiting(name: str, queued: float = 0.0) -> Workload:
    return replace(workload(f"ns/job-{name}", 1, 4, queued=queued), queue=f"ns/{name}")


MANY = {f"q{number}": number for number in range(8)}


@pytest.mark.parametrize(
    ("used", "asks", "by_usage", "text"),
    [
        pytest.param({"a": 4, "b": 1}, "a", True, "is 4, so these with less come first: ns/b (1)", id="one-used-less"),
        pytest.param({"a": 4, "b": 1}, "b", True, "", id="used-least"),
        pytest.param({"a": 4, "b": 4}, "a", True, "", id="used-as-much"),
        pytest.param({"a": 4, "b": 1}, "a", False, "", id="usage-does-not-order-the-queue"),
        pytest.param({"a": 4, "b": 2, "c": 1}, "a", True, "first: ns/c (1), ns/b (2)", id="least-first"),
        pytest.param(MANY, "q7", True, "4 more", id="many-are-counted"),
    ],
)
def test_a_workload_is_told_which_local_queues_have_used_less(
    used: dict[str, int], asks: str, text: str, *, by_usage: bool
) -> None:
    told = less_used(world(used, by_usage=by_usage).queues, waiting(asks))
    assert (text in told) if text else not told


def test_a_local_queue_with_nothing_to_start_is_not_named() -> None:
    made = world({"a": 4, "b": 1})
    made.apply(replace(waiting("b"), blocked=("Suspended", "stopped")))
    assert not less_used(made.queues, waiting("a"))


@pytest.mark.parametrize(
    ("by_usage", "first", "second"),
    [pytest.param(True, "b", "a", id="by-usage"), pytest.param(False, "a", "b", id="by-age")],
)
def test_a_forecast_takes_the_turns_in_the_order_of_usage(first: str, second: str, *, by_usage: bool) -> None:
    """Each needs the whole quota for 100 seconds."""
    made = world({"a": 4, "b": 1}, by_usage=by_usage)
    found = forecast(inputs_of(made.ledger, made.queues, NOW, lambda _: RunEstimate.exactly(100.0)))
    assert found[f"ns/job-{first}"].first == NOW
    assert found[f"ns/job-{second}"].first == pytest.approx(NOW + 100.0)


def test_a_place_that_is_held_counts_in_its_local_queue_until_it_is_given_up() -> None:
    made, one = world({"a": 0, "b": 0}), waiting("a")
    held = Admission("q", (PodSetAdmission("main", {"cpu": "f"}, {"cpu": 4 * CPU}, 1),))
    made.ledger.holds.put(Hold.of(HoldKind.PLACE, one, held))
    assert held_beside_quota(made.ledger, made.queues) == {"ns/a": {"cpu": 4 * CPU}}
    assert made.ledger.holds.drop(hold_key(HoldKind.PLACE, one.key))
    assert held_beside_quota(made.ledger, made.queues) == {}


@pytest.mark.parametrize(
    ("begun", "named", "text"),
    [
        pytest.param(
            True, "", "of ClusterQueue q is charged for AdvanceReservation run (until 1970-01-01T", id="charged"
        ),
        pytest.param(False, "", "", id="not-begun"),
        pytest.param(True, "run", "", id="it-draws-on-the-charge-itself"),
    ],
)
def test_a_workload_is_told_which_reservation_charges_its_quota(begun: bool, named: str, text: str) -> None:
    made = World(now=NOW)
    held = AdvanceReservation("run", {RACK: "r0"}, NOW - 1, NOW + 1, "q", begun, frozenset({"ns"}))
    for event in (racks(), queue(tas=8), host("h0", "r0", 4), held):
        made.apply(event)
    told = charged_node_holds(made.ledger, replace(workload("ns/w", 8), reservation=named))
    assert (text in told) if text else not told
