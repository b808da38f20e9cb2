"""Two pod sets in one group without a single pod among them: no leader and workers, but two gangs in one domain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.decision import Admit
from admission.engine.model import PodSet, Profile, TopologyRequest, Workload
from tests.admission.engine.builders import CPU, RACK, Cluster, admitted, host, queue, racks, waits

TOGETHER = TopologyRequest(required=RACK, group="g")


def pair(profile: Profile) -> Workload:
    sets = tuple(PodSet(name, count, {"cpu": CPU}, topology=TOGETHER) for name, count in (("a", 2), ("b", 3)))
    return Workload("w", "u", "ns/q", "q", sets, profile=profile)


def site(profile: Profile) -> Cluster:
    """Racks of four and of five cpus: only the second holds all."""
    return Cluster(racks(), host("h1", "r1", 4), host("h2", "r2", 5), queue(tas=100), pair(profile))


def test_exact_places_every_pod_of_both_in_one_domain() -> None:
    cluster = site(Profile.EXACT)
    (decision,) = cluster.cycle().decisions
    assert isinstance(decision, Admit)
    got = decision.admission.pod_sets
    assert {p.name: [(d.values, d.count) for d in p.assignment.domains] for p in got if p.assignment} == {
        "a": [(("h2",), 2)],
        "b": [(("h2",), 3)],
    }


@pytest.mark.parametrize("profile", [Profile.COMPATIBLE, Profile.LEAST_FREE])
def test_the_others_say_that_they_do_not_know_such_groups(profile: Profile) -> None:
    report = site(profile).cycle()
    assert admitted(report) == []
    assert "a pod set group of 2 pod sets needs the placement profile Exact" in waits(report)["w"]


def test_a_single_pod_is_a_leader_as_ever() -> None:
    cluster = site(Profile.COMPATIBLE)
    cluster.queues.remove("w")
    sets = tuple(replace(p, count=n) for p, n in zip(pair(Profile.COMPATIBLE).pod_sets, (1, 4), strict=True))
    cluster.tell(replace(pair(Profile.COMPATIBLE), pod_sets=sets))
    assert admitted(cluster.cycle()) == ["w"]
