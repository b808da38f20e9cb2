"""A feature that is left out costs nothing and breaks nothing: who does not use it gets the same decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from admission.engine import features
from admission.engine.cycle.cycle import CycleReport
from admission.engine.cycle.feature import Feature
from admission.engine.decide import decide
from admission.engine.features.advance_reservations.feature import AdvanceReservations
from admission.engine.features.advance_reservations.reservation import AdvanceReservation
from admission.engine.features.backfill.feature import Backfill
from admission.engine.features.elastic.feature import ElasticJobs
from admission.engine.features.gang_groups.feature import GangGroups
from admission.engine.features.moves.feature import HeldPlaces
from admission.engine.features.spare_hosts.feature import Spares
from admission.engine.ledger.holds import Hold, HoldKind
from admission.engine.model import (
    Admission,
    Flavor,
    Gang,
    PodSetAdmission,
    PreemptionPolicy,
    SpareRule,
    TopologyRequest,
)
from tests.admission.engine.builders import CPU, RACK, STRICT, Cluster, admitted, host, queue, racks, waits, workload

HOSTS = [host(f"h{number}", f"r{number // 2}", 4) for number in range(4)]
GANG, ANYWHERE = TopologyRequest(required=RACK), TopologyRequest(unconstrained=True)


def decided(cluster: Cluster) -> CycleReport:
    return decide(cluster.ledger, cluster.queues, 0.0, 10)


def left_out(monkeypatch: pytest.MonkeyPatch, feature: type[Feature]) -> None:
    assert feature in features.FEATURES
    monkeypatch.setattr(features, "FEATURES", [each for each in features.FEATURES if each is not feature])


def mixed() -> Cluster:
    """A gang that starts, one that evicts, and one that waits."""
    evicts = PreemptionPolicy(within_cluster_queue="LowerPriority")
    cluster = Cluster(racks(), *HOSTS, replace(queue(tas=16), preemption=evicts))
    cluster.tell(workload("low", 2, 4, topology=GANG), workload("small", 1, 2, topology=GANG, queued=1.0))
    decided(cluster)
    cluster.tell(workload("high", 4, 2, topology=GANG, priority=1), workload("huge", 5, 4, topology=GANG, queued=2.0))
    return cluster


@pytest.mark.parametrize("feature", features.FEATURES)
def test_who_does_not_use_a_feature_is_decided_alike_without_it(
    feature: type[Feature], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = decided(mixed())
    assert len({type(decision) for decision in before.decisions}) > 1
    left_out(monkeypatch, feature)
    assert decided(mixed()) == before


def spared() -> Cluster:
    """Two racks of two hosts, one host of each rack spare: a gang of two hosts does not fit."""
    rule = SpareRule(1, 2, RACK)
    return Cluster(replace(racks(), spare=rule), *HOSTS, queue(tas=16), workload("gang", 2, 4, topology=GANG))


def test_a_workload_starts_with_its_spare_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def held() -> list[str]:
        gang = workload("gang", 1, 4, topology=replace(GANG, spare_hosts=1))
        cluster = Cluster(racks(), *HOSTS, queue(tas=16), gang)
        assert admitted(decided(cluster)) == ["gang"]
        return [hold.owner for hold in cluster.ledger.holds.of_kind(HoldKind.SPARES)]

    assert held() == ["gang"]
    left_out(monkeypatch, Spares)
    assert held() == []


def reserved() -> Cluster:
    """All quota is charged for an advance reservation, which the workload names."""
    names = AdvanceReservation("own", {RACK: "r0"}, -10.0, 10.0, "q", True, frozenset({"ns"}))
    gang = replace(workload("ns/gang", 2, 4, topology=GANG), reservation="own")
    return Cluster(racks(), *HOSTS, queue(tas=8), names, gang)


def left() -> Cluster:
    """A place is held for the workload."""
    cluster = Cluster(Flavor("any"), queue(any=10), gang := workload("gang", 1, 8))
    place = Admission("q", (PodSetAdmission("main", {"cpu": "any"}, {"cpu": 8 * CPU}, 1),))
    cluster.ledger.holds.put(Hold.of(HoldKind.PLACE, gang, place))
    return cluster


def incomplete() -> Cluster:
    """A gang that starts together with another one, which does not exist yet."""
    together = Gang("gang", ("ns/gang", "ns/other"))
    gang = replace(workload("ns/gang", 2, 4, topology=GANG), gang=together)
    return Cluster(racks(), *HOSTS, queue(tas=16), gang)


def growing() -> Cluster:
    """A slice of three pods that replaces one of two, where quota and hosts have room for four."""
    cluster = Cluster(racks(), *HOSTS, queue(tas=16), workload("ns/job", 2, 4, topology=ANYWHERE))
    decided(cluster)
    cluster.tell(replace(workload("ns/job-2", 3, 4, topology=ANYWHERE), replaces="ns/job"))
    return cluster


def overtaken() -> Cluster:
    """A job that ends before the first of its queue can start, which waits for one that runs."""
    cluster = Cluster(Flavor("any"), replace(queue(strategy=STRICT, any=10), reserves_starts=True))
    cluster.tell(replace(workload("runs", 6, 1), time_limit=60.0))
    decided(cluster)
    cluster.tell(workload("first", 8, 1, queued=1.0), replace(workload("short", 4, 1, queued=2.0), time_limit=50.0))
    return cluster


@pytest.mark.parametrize(
    ("feature", "scene", "starts"),
    [
        (ElasticJobs, growing, True),
        (GangGroups, incomplete, False),
        (Spares, spared, False),
        (AdvanceReservations, reserved, True),
        (HeldPlaces, left, True),
        (Backfill, overtaken, True),
    ],
)
def test_a_feature_is_what_its_hooks_say(
    feature: type[Feature], scene: Callable[[], Cluster], starts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bool(admitted(decided(scene()))) is starts
    left_out(monkeypatch, feature)
    without = decided(scene())
    assert bool(admitted(without)) is not starts
    assert bool(waits(without)) is starts
