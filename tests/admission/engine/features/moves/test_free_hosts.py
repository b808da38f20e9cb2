"""How many hosts have no workloads, and plans for a free domain of some size."""

from __future__ import annotations

from admission.engine.features.moves.free_hosts import FreeHosts, free_hosts
from admission.engine.features.moves.levels import one_named
from admission.engine.features.moves.plans import MovePlan, NoPlan
from admission.engine.features.moves.vacate import vacate
from tests.admission.engine.builders import RACK
from tests.admission.engine.features.moves.clusters import NOW, Running, cluster


def test_hosts_without_workloads_are_counted_by_domain() -> None:
    ledger = cluster({"a": Running({"h0": 1}), "b": Running({"h2": 1, "h3": 1})}, count=3)
    found = free_hosts(ledger, "tas", RACK)
    assert found == FreeHosts(hosts=6, free=3, largest=2)
    assert found.idle == 50.0
    assert free_hosts(ledger, "tas", "no-such-level") is None
    assert free_hosts(ledger, "no-such-flavor", RACK) is None


def test_a_domain_that_is_too_small_is_not_made_free() -> None:
    ledger = cluster({"a": Running({"h0": 1}), "b": Running({"h2": 1})})
    assert isinstance(vacate(ledger, "tas", RACK, NOW, least=2), MovePlan)
    assert isinstance(vacate(ledger, "tas", RACK, NOW, least=3), NoPlan)


def test_a_word_names_a_level_if_only_one_ends_with_it() -> None:
    levels = ["example.com/topology-block", "example.com/topology-rack", "kubernetes.io/hostname"]
    assert one_named(levels, "rack") == "example.com/topology-rack"
    assert one_named(levels, "example.com/topology-block") == "example.com/topology-block"
    assert one_named(levels, "row") is None
    assert one_named(["a-rack", "b-rack"], "rack") is None
