"""What is held for somebody: nobody else gets it, its owner may, and nothing is left of it at its end."""

from __future__ import annotations

import pytest

from admission.engine.ledger.holds import BESIDE, Hold, HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, Flavor, PodSetAdmission
from tests.admission.engine.builders import CPU, Cluster, admitted, queue, workload
from tests.admission.engine.dump import dump


def cluster() -> Cluster:
    return Cluster(Flavor("any"), queue(any=10))


def takes(cpus: int) -> Admission:
    return Admission("q", (PodSetAdmission("main", {"cpu": "any"}, {"cpu": cpus * CPU}, 1),))


def hold(kind: HoldKind, cpus: int = 4, *, owner: str = "held", part: str = "") -> Hold:
    return Hold.of(kind, workload(owner, cpus=cpus), takes(cpus), part)


@pytest.mark.parametrize("kind", HoldKind)
def test_others_get_what_is_left(kind: HoldKind) -> None:
    here = cluster()
    here.ledger.holds.put(hold(kind))
    here.tell(workload("large", cpus=7), workload("small", cpus=6))
    assert admitted(here.cycle()) == ["small"]


@pytest.mark.parametrize("kind", HoldKind)
def test_nothing_is_left_at_the_end(kind: HoldKind) -> None:
    ledger = cluster().ledger
    before = dump(ledger)
    ledger.holds.put(hold(kind))
    key = hold_key(kind, "held")
    assert (key in ledger.holds, ledger.holds.owner_of(key), ledger.charged_to("q")) == (True, "held", [])
    assert [each.key for each in ledger.holds.of_kind(kind)] == [key]
    assert ledger.audit() == []
    assert ledger.holds.drop(key)
    assert (key in ledger.holds, ledger.holds.of_kind(kind), set(ledger.holds.keys)) == (False, [], set())
    assert not ledger.holds.drop(key), "it has ended"
    assert dump(ledger) == before


@pytest.mark.parametrize("kind", HoldKind)
def test_a_trial_reverts_a_hold_and_its_end(kind: HoldKind) -> None:
    ledger = cluster().ledger
    with ledger.trial():
        ledger.holds.put(hold(kind))
    assert not ledger.holds.of_kind(kind)
    ledger.holds.put(hold(kind))
    before = dump(ledger)
    with ledger.trial():
        ledger.holds.drop(hold_key(kind, "held"))
    assert [each.owner for each in ledger.holds.of_kind(kind)] == ["held"]
    assert dump(ledger) == before


def test_a_charge_under_the_same_key_ends_the_hold() -> None:
    ledger = cluster().ledger
    ledger.holds.put(hold(HoldKind.CAPACITY_RESERVATION))
    ledger.charge(workload("held", cpus=4), takes(4))
    assert not ledger.holds.drop("held")
    assert [allocation.workload.key for allocation in ledger.charged_to("q")] == ["held"]


def test_holds_of_one_owner_are_told_from_each_other() -> None:
    ledger = cluster().ledger
    parts = [(HoldKind.CAPACITY_RESERVATION, BESIDE), (HoldKind.NEW_PLACE, "0"), (HoldKind.NEW_PLACE, "1")]
    for kind, part in parts:
        ledger.holds.put(hold(kind, 2, part=part))
    assert len(ledger.holds.keys) == 3
    assert [each.owner for each in ledger.holds.of_kind(HoldKind.NEW_PLACE)] == ["held", "held"]


@pytest.mark.parametrize("starts", [True, False])
def test_a_lifted_hold_comes_back_unless_its_owner_starts(starts: bool) -> None:
    ledger = cluster().ledger
    ledger.holds.put(hold(HoldKind.PLACE, 8))
    with ledger.holds.lifted(HoldKind.PLACE, "held") as lifted:
        assert lifted
        assert free(ledger) == 10
        if starts:
            ledger.charge(workload("held", cpus=8), takes(8))
    assert free(ledger) == 2
    assert bool(ledger.holds.of_kind(HoldKind.PLACE)) is not starts


def test_nothing_is_lifted_for_another_owner() -> None:
    ledger = cluster().ledger
    ledger.holds.put(hold(HoldKind.PLACE, 8))
    with ledger.holds.lifted(HoldKind.PLACE, "other") as lifted:
        assert (lifted, free(ledger)) == (False, 2)


def test_the_end_of_a_workload_ends_its_spare_hosts() -> None:
    ledger = cluster().ledger
    ledger.charge(workload("held", cpus=4), takes(4))
    ledger.journal.put(ledger.holds.askers, "held", 0)
    ledger.holds.put(hold(HoldKind.SPARES))
    ledger.release("held")
    assert (ledger.holds.of_kind(HoldKind.SPARES), free(ledger)) == ([], 10)


def free(ledger: Ledger) -> int:
    """CPUs of the queue that are free."""
    return ledger.quota.available("q", ("any", "cpu")) // CPU
