"""Workloads that start together or not at all: across queues, in their turn, and never half."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.decision import Evict
from admission.engine.model import (
    Admission,
    Flavor,
    Gang,
    PodSetAdmission,
    QueueingStrategy,
    StopPolicy,
    Workload,
)
from admission.engine.queue.cluster_queue import order_of
from admission.engine.reasons import Reason
from tests.admission.engine.builders import BEST, CPU, STRICT, Cluster, admitted, queue, waits, workload
from tests.admission.engine.dump import dump

A, B, C = "ns/a", "ns/b", "other/c"
FLAT = Flavor("flat", {})


def gang(key: str, together: tuple[str, ...], pods: int = 1, *, to: str = "q", **more: float) -> Workload:
    """A workload of one group, of so many pods of one cpu."""
    made = workload(key, pods, to=to, queued=more.get("queued", 0.0), priority=int(more.get("priority", 0)))
    return replace(made, gang=Gang(f"gang-{key}", together))


def charged(member: Workload, *, started: bool) -> Workload:
    """The same with quota, as the feed shows it after a restart."""
    (pod_set,) = member.pod_sets
    got = PodSetAdmission("main", {"cpu": "flat"}, {"cpu": pod_set.count * CPU}, pod_set.count)
    of = member.gang
    assert of is not None
    return replace(
        member, admission=Admission(member.cluster_queue, (got,)), gang=replace(of, started=started), reserved=1.0
    )


def cluster(*workloads: Workload, strategy: QueueingStrategy = BEST, **quotas: int) -> Cluster:
    """Queues of that many cpus each, q alone if none is named."""
    queues = [queue(name, strategy=strategy, flat=cpus) for name, cpus in (quotas or {"q": 4}).items()]
    return Cluster(FLAT, *queues, *workloads)


def test_all_of_a_group_start_in_one_cycle_each_from_its_own_queue() -> None:
    made = cluster(gang(A, (A, B), 3, to="q"), gang(B, (A, B), 4, to="p"), q=4, p=4)
    assert sorted(admitted(made.cycle())) == [A, B]
    assert len(made.queues) == 0


def with_minimum(member: Workload, minimum: int) -> Workload:
    """The gang may start with so many pods, as its Workload is read."""
    (pod_set,), of = member.pod_sets, member.gang
    assert of is not None
    least = replace(pod_set, min_count=minimum)
    return replace(member, pod_sets=(least,), gang=replace(of, minimum=minimum))


def started(cluster: Cluster) -> dict[str, int]:
    """Pods by gang."""
    return {key: sum(p.count for p in found.pod_sets) for key, found in cluster.ledger.admissions.items()}


@pytest.mark.parametrize(
    ("room", "pods"), [(5, {}), (6, {A: 3, B: 3}), (7, {A: 4, B: 3}), (10, {A: 7, B: 3}), (11, {A: 8, B: 3})]
)
def test_a_group_starts_with_the_minimum_of_each_gang_and_what_fits_beyond(room: int, pods: dict[str, int]) -> None:
    gangs = (with_minimum(gang(A, (A, B), 8), 3), with_minimum(gang(B, (A, B), 3), 3))
    made = cluster(*gangs, q=room)
    made.cycle()
    assert started(made) == pods


def test_none_starts_while_one_has_no_capacity() -> None:
    made = cluster(
        gang(A, (A, B), 3, to="q"), gang(B, (A, B), 5, to="p"), workload("ns/late", 4, to="q", queued=9), q=4, p=4
    )
    before = dump(made.ledger)["quota"]
    report = made.cycle()
    assert admitted(report) == ["ns/late"], "what a group cannot use is left to others"
    made.finish("ns/late")
    assert dump(made.ledger)["quota"] == before
    told = waits(report)
    assert told[A].startswith("ExceedsMaxQuota: gang ns/b of the group: ")
    assert told[B].startswith("ExceedsMaxQuota: couldn't assign flavors")


def test_two_that_fit_one_by_one_but_not_together_do_not_start() -> None:
    made = cluster(gang(A, (A, B), 3), gang(B, (A, B), 2))
    assert admitted(made.cycle()) == []
    assert made.ledger.admissions == {}


@pytest.mark.parametrize(
    ("others", "told"),
    [
        pytest.param((), "WaitingForGangs: gang ns/b of the group has too few pods yet", id="not there"),
        pytest.param(
            (workload(B),), "WaitingForGangs: gang ns/b of the group does not name it back", id="names nobody"
        ),
        pytest.param(
            (gang(B, (B, C)), gang(C, (B, C))),
            "WaitingForGangs: gang ns/b of the group does not name it back",
            id="names somebody else",
        ),
        pytest.param(
            (gang(B, (A, B, C)), gang(C, (A, B, C))),
            "WaitingForGangs: gang ns/b of the group names other gangs: ns/a, ns/b, other/c",
            id="names one more",
        ),
        pytest.param(
            (replace(gang(B, (A, B)), blocked=("Deactivated", "The workload is deactivated")),),
            "WaitingForGangs: gang ns/b of the group: The workload is deactivated",
            id="may not start",
        ),
        pytest.param(
            (replace(gang(B, (A, B)), not_before=99.0),),
            "WaitingForGangs: gang ns/b of the group: its backoff is not over",
            id="in a backoff",
        ),
    ],
)
def test_a_gang_that_waits_for_another_names_it_and_the_reason(others: tuple[Workload, ...], told: str) -> None:
    made = cluster(gang(A, (A, B)), *others)
    report = made.cycle()
    assert A not in admitted(report)
    assert waits(report)[A] == told


def test_one_that_waits_for_another_starts_when_that_one_comes() -> None:
    made = cluster(gang(A, (A, B)))
    assert admitted(made.cycle()) == []
    made.tell(gang(B, (A, B)))
    assert sorted(admitted(made.cycle())) == [A, B]


def test_a_gang_that_waits_for_another_is_requeued_when_that_changes() -> None:
    """Nobody is told that pods are missing which have come."""
    made = cluster(gang(A, (A, B), 3))
    assert waits(made.cycle())[A] == "WaitingForGangs: gang ns/b of the group has too few pods yet"
    other = gang(B, (A, B), 5)
    made.tell(replace(other, blocked=("Suspended", "2 of 5 pods exist")))
    assert waits(made.cycle())[A] == "WaitingForGangs: gang ns/b of the group: 2 of 5 pods exist"
    made.tell(other)
    assert waits(made.cycle())[A].startswith("ExceedsMaxQuota: gang ns/b of the group: couldn't assign flavors")
    made.queues.remove(B)
    assert waits(made.cycle())[A] == "WaitingForGangs: gang ns/b of the group has too few pods yet"
    assert waits(made.cycle()) == {}


def test_a_stopped_queue_holds_the_whole_group() -> None:
    made = cluster(gang(A, (A, B), to="q"), gang(B, (A, B), to="p"), q=4, p=4)
    made.tell(replace(queue("p", flat=4), stop=StopPolicy.HOLD))
    report = made.cycle()
    assert admitted(report) == []
    assert waits(report)[A] == "Suspended: gang ns/b of the group: ClusterQueue p is inactive"


def test_two_groups_whose_members_stand_crosswise_in_strict_queues_do_not_wait_for_each_other() -> None:
    one, two = (A, B), ("ns/x", "ns/y")
    made = cluster(
        gang(A, one, 3, to="q", queued=1),
        gang("ns/x", two, 3, to="q", queued=4),
        gang("ns/y", two, 3, to="p", queued=2),
        gang(B, one, 3, to="p", queued=3),
        strategy=STRICT,
        q=4,
        p=4,
    )
    assert sorted(admitted(made.cycle())) == [A, B]
    for key in (A, B):
        made.finish(key)
    assert sorted(admitted(made.cycle())) == ["ns/x", "ns/y"]


def test_a_group_takes_the_turn_of_its_last_member() -> None:
    made = cluster(
        gang(A, (A, B), 3, to="q", priority=9),
        workload("ns/between", 2, to="p", priority=5),
        gang(B, (A, B), 3, to="p"),
        q=4,
        p=4,
    )
    assert admitted(made.cycle()) == ["ns/between"], "nobody of lower priority overtakes it"


def test_a_member_is_fetched_from_behind_a_head_that_does_not_fit() -> None:
    made = cluster(
        gang(A, (A, B), to="q", queued=5), workload("ns/wide", 9, to="p"), gang(B, (A, B), to="p", queued=5), q=4, p=4
    )
    assert sorted(admitted(made.cycle())) == [A, B]


def test_what_a_member_takes_may_be_what_only_another_can_use() -> None:
    here, there = Flavor("here", {}), Flavor("there", {})
    wide, small = queue("q", here=2, there=2), queue("p", cohort=None, here=2)
    group = (A, B)
    made = Cluster(
        here,
        there,
        replace(wide, cohort="all"),
        replace(small, cohort="all"),
        gang(A, group, 2),
        gang(B, group, 2, to="p"),
    )
    made.tell(replace(queue("p", here=0), cohort="all"))
    assert sorted(admitted(made.cycle())) == [A, B], "a leaves the one flavor of b to it"


def test_the_rest_of_a_group_half_of_which_has_quota_joins_it() -> None:
    made = cluster(charged(gang(A, (A, B), 2), started=False), gang(B, (A, B), 2))
    made.queues.remove(A)
    assert admitted(made.cycle()) == [B]


def test_half_a_group_releases_its_quota_when_the_rest_does_not_fit() -> None:
    made = cluster(charged(gang(A, (A, B), 2), started=False), gang(B, (A, B), 3))
    report = made.cycle()
    assert admitted(report) == []
    assert [d for d in report.decisions if isinstance(d, Evict)] == [
        Evict(A, "GangGroupIncomplete", waits(report)[B].replace("WaitingForQuota: ", "gang ns/b of the group: "))
    ]


def test_one_that_does_not_name_the_group_is_not_evicted_for_it() -> None:
    alone = replace(charged(gang(B, ()), started=False), gang=Gang("gang-b"))
    report = cluster(alone, gang(A, (A, B))).cycle()
    assert waits(report) == {A: "WaitingForGangs: gang ns/b of the group does not name it back"}
    assert not any(isinstance(decision, Evict) for decision in report.decisions)


def test_members_that_run_stay_while_one_that_was_evicted_waits() -> None:
    made = cluster(charged(gang(A, (A, B), 2), started=True), gang(B, (A, B), 3))
    report = made.cycle()
    assert [d for d in report.decisions if isinstance(d, Evict)] == []
    assert waits(report)[B].startswith(Reason.WAITING_FOR_QUOTA)


def test_a_group_counts_as_one_where_each_waits_for_the_pods_of_the_one_before() -> None:
    made = cluster(gang(A, (A, B)), gang(B, (A, B)), workload("ns/next", queued=3))
    report = made.cycle(startable=1)
    assert sorted(admitted(report)) == [A, B]
    assert waits(report)["ns/next"].startswith("WaitingForPodsReady")


def test_a_late_joiner_is_next_to_its_gang() -> None:
    first, other = gang("ns/z", (), queued=1), gang("ns/m", (), queued=1)
    late = replace(gang("ns/a-late", (), queued=1), uid="uid-late", gang=first.gang)
    line = sorted((late, other, first), key=order_of)
    assert [each.key for each in line] == ["ns/m", "ns/a-late", "ns/z"]


@pytest.mark.parametrize("fair", [False, True], ids=["by priority", "by fair shares"])
def test_of_two_groups_that_fit_once_one_runs_then_the_other(fair: bool) -> None:
    one, two = (A, B), ("ns/x", "ns/y")
    made = cluster(*(gang(key, group, 2, queued=at) for group, at in ((one, 0.0), (two, 1.0)) for key in group), q=5)
    assert sorted(admitted(made.cycle(fair=fair))) == [A, B]
    made.finish(A)
    assert admitted(made.cycle(fair=fair)) == []
    made.finish(B)
    assert sorted(admitted(made.cycle(fair=fair))) == ["ns/x", "ns/y"]
