"""Elastic quota on the engine: its four stories, and what no history may break."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.controllers.elastic_quota import translation
from admission.engine.convert import convert_queues
from admission.engine.cycle.cycle import CycleReport, run_cycle
from admission.engine.decision import Preempt, PreemptionReason, Wait
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    ClusterQueue,
    Node,
    PlacementOptions,
    PodSet,
    Profile,
    Workload,
)
from admission.engine.preemption.preemptor import Preemptor
from admission.engine.quota.fairness import FairSharingRules
from admission.engine.reasons import Reason
from api.elastic_quotas import ElasticQuota, ElasticQuotaSpec, cluster_queue_name
from tests.admission.engine.builders import Cluster, admitted, waits
from tests.budgets import examples

GPU = "nvidia.com/gpu"
Limits = tuple[int | None, int | None]


def queues_of(resource: str = GPU, /, **limits: Limits) -> list[ClusterQueue]:
    """The engine's queues for elastic quotas of one resource, as the controller would make them."""
    given = {
        name: translation.bounds(
            ElasticQuota(
                spec=ElasticQuotaSpec(
                    min={} if least is None else {resource: least}, max={} if most is None else {resource: most}
                )
            )
        )
        for name, (least, most) in limits.items()
    }
    counted = translation.counted(given.values())
    return [
        convert_queues.cluster_queue(translation.cluster_queue(name, each, counted)) for name, each in given.items()
    ]


class Elastic(Cluster):
    """Namespaces with elastic quotas on nodes; workloads are named after their namespace: `a1` is the first of `a`."""

    def __init__(
        self,
        nodes: Mapping[str, int],
        resource: str = GPU,
        profile: Profile = Profile.EXACT,
        fair: bool = False,
        **limits: Limits,
    ) -> None:
        super().__init__()
        self.ledger = Ledger(PlacementOptions(profile=profile))
        self.resource, self.now, self.fair = resource, 0.0, fair
        self.tell(convert_queues.flavor(translation.flavor(), None))
        for name, amount in nodes.items():
            there = {"cpu": 64_000, "memory": 2**40, "pods": 110} | ({} if resource == "pods" else {resource: amount})
            self.tell(Node(name, {HOSTNAME_LABEL: name, "kubernetes.io/os": "linux"}, there))
        self.limits = limits
        self.tell(*queues_of(resource, **limits))
        self.reports: list[CycleReport] = []

    def submit(
        self,
        key: str,
        amount: int,
        *,
        pods: int | None = None,
        least: int | None = None,
        priority: int = 0,
        host: str = "",
    ) -> CycleReport:
        """A new workload of so much in all, a pod each unit unless told otherwise; and what comes of it."""
        self.now += 60
        pods = amount if pods is None else pods
        requests = {"cpu": 100, "memory": 2**30} | ({} if self.resource == "pods" else {self.resource: amount // pods})
        selector = {HOSTNAME_LABEL: host} if host else {}
        pod_sets = (PodSet("main", pods, requests, min_count=least, node_selector=selector),)
        to = cluster_queue_name(key.rstrip("0123456789"))
        self.tell(Workload(key, f"uid-{key}", f"ns/{to}", to, pod_sets, priority=priority, queued=self.now))
        return self.again()

    def again(self) -> CycleReport:
        """One more cycle; who is admitted has held its quota since now."""
        preemptor = Preemptor(self.ledger, self.now, FairSharingRules() if self.fair else None)
        report = run_cycle(self.ledger, self.queues, self.now, 100, preemptor, fair=self.fair)
        for key in admitted(report):
            charged = self.ledger.workload(key)
            assert charged is not None
            self.ledger.apply(replace(charged, reserved=self.now))
        assert self.ledger.audit() == []
        return report

    def leaves(self, key: str) -> CycleReport:
        """An evicted workload has stopped, and does not come back; what happens then."""
        self.finish(key)
        return self.again()

    def used(self) -> dict[str, int]:
        return {name: self.of(name) for name in self.limits}

    def of(self, name: str) -> int:
        return self.ledger.quota.usage(cluster_queue_name(name)).get(("elastic-quota", self.resource), 0)

    @property
    def running(self) -> list[str]:
        return sorted(self.ledger.admissions)


def victims(report: CycleReport) -> dict[str, list[str]]:
    return {d.workload: [v.workload for v in d.victims] for d in report.decisions if isinstance(d, Preempt)}


TEN = {f"n{i}": 2 for i in range(5)}
PROFILES = pytest.mark.parametrize("profile", list(Profile))


# ---- the stories


def story_1(profile: Profile) -> Elastic:
    """A has grown to 6 of (4, 6), B uses 3 of (6, 8); one GPU of ten is free."""
    cluster = Elastic(TEN, profile=profile, a=(4, 6), b=(6, 8))
    assert admitted(cluster.submit("a1", 2)) == ["a1"]
    assert admitted(cluster.submit("b1", 3)) == ["b1"]
    assert admitted(cluster.submit("a2", 2)) == ["a2"]
    assert cluster.used() == {"a": 4, "b": 3}
    assert admitted(cluster.submit("a3", 3, least=1)) == ["a3"]
    assert cluster.used() == {"a": 6, "b": 3}, "of the three it asked for it got two: max is 6"
    return cluster


@PROFILES
def test_story_1_what_was_lent_is_taken_back(profile: Profile) -> None:
    cluster = story_1(profile)
    report = cluster.submit("b2", 3)
    assert victims(report) == {"b2": ["a3"]}
    [decision] = report.decisions
    assert isinstance(decision, Preempt)
    assert [v.claim for v in decision.victims] == [PreemptionReason.IN_COHORT_RECLAMATION]
    assert admitted(cluster.leaves("a3")) == ["b2"]
    assert cluster.used() == {"a": 4, "b": 6}


@PROFILES
@pytest.mark.parametrize("more", [1, 2])
def test_story_1_beyond_its_min_nothing_is_evicted_for_it(profile: Profile, more: int) -> None:
    cluster = story_1(profile)
    cluster.submit("b2", 3)
    cluster.leaves("a3")
    report = cluster.submit("b3", more)
    assert victims(report) == {}
    assert waits(report)["b3"] == (
        "WaitingForQuota: couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in "
        f"flavor elastic-quota, {more} more needed"
    )
    assert cluster.used() == {"a": 4, "b": 6}


def test_story_1_three_that_cannot_be_fewer_wait() -> None:
    cluster = Elastic(TEN, a=(4, 6), b=(6, 8))
    cluster.submit("a1", 4)
    report = cluster.submit("a2", 3)
    assert waits(report)["a2"].endswith("1 more needed")
    assert admitted(cluster.submit("a3", 2)) == ["a3"]


def story_2(**priorities: int) -> Elastic:
    """A 4 of (3, 4), B 3 of (4, 6), C 3 of (3, 4), in workloads of one GPU: ten of ten."""
    cluster = Elastic(TEN, a=(3, 4), b=(4, 6), c=(3, 4))
    for key in ("a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3", "a4"):
        assert admitted(cluster.submit(key, 1, priority=priorities.get(key, 0))) == [key]
    return cluster


def test_story_2_only_a_namespace_above_its_min_gives() -> None:
    cluster = story_2(a1=5, a2=5, a3=5, a4=5)
    assert victims(cluster.submit("b4", 1)) == {"b4": ["a4"]}, "whatever their priority"
    assert admitted(cluster.leaves("a4")) == ["b4"]
    assert cluster.used() == {"a": 3, "b": 4, "c": 3}


def full_with_b_at_five(**priorities: int) -> Elastic:
    cluster = story_2(**priorities)
    cluster.submit("b4", 1)
    cluster.leaves("a4")
    cluster.finish("c3")
    assert admitted(cluster.submit("b5", 1, priority=2)) == ["b5"]
    assert cluster.used() == {"a": 3, "b": 5, "c": 2}
    return cluster


def test_story_2_above_its_min_only_a_lower_priority_of_its_own_goes() -> None:
    cluster = full_with_b_at_five(b2=-1)
    assert victims(cluster.submit("b6", 1, priority=1)) == {"b6": ["b2"]}
    assert admitted(cluster.leaves("b2")) == ["b6"]
    assert cluster.used() == {"a": 3, "b": 5, "c": 2}


def test_story_2_above_its_min_without_a_lower_priority_it_waits() -> None:
    cluster = full_with_b_at_five()
    assert victims(cluster.submit("b6", 1)) == {}


@PROFILES
def test_story_3_one_beyond_its_min_does_not_evict_another_that_is(profile: Profile) -> None:
    cluster = Elastic({"n": 2000}, "cpu", profile, q=(0, 2), r=(0, 2), s=(1, 2))
    assert admitted(cluster.submit("q1", 1000, pods=1)) == ["q1"], "what it borrows is s's"
    report = cluster.submit("r1", 1000, pods=1, priority=1000)
    assert victims(report) == {}
    assert waits(report)["r1"].startswith("WaitingForQuota")
    assert victims(cluster.submit("s1", 1000, pods=1, priority=-1000)) == {"s1": ["q1"]}, "it gets its own back"


def story_4(cpus: int, *, gang: bool, profile: Profile = Profile.EXACT) -> Elastic:
    """Two nodes; q has a pod of one cpu on each, as one workload or as two."""
    cluster = Elastic({"n1": cpus * 1000, "n2": cpus * 1000}, "cpu", profile, q=(0, 2), r=(2, 2))
    for key, pods in (("q1", 2),) if gang else (("q1", 1), ("q2", 1)):
        assert admitted(cluster.submit(key, pods * 1000, pods=pods, host="" if gang else f"n{key[1:]}")) == [key]
    return cluster


@PROFILES
@pytest.mark.parametrize("pods", [1, 2], ids=["a pod of 2 cpu", "a gang of 2 pods of 1 cpu"])
@pytest.mark.parametrize("gang", [True, False], ids=["one workload", "two"])
def test_story_4_pods_on_two_nodes_go_together(gang: bool, pods: int, profile: Profile) -> None:
    cluster = story_4(2, gang=gang, profile=profile)
    running = cluster.running
    report = cluster.submit("r1", 2000, pods=pods)
    assert {key: sorted(gone) for key, gone in victims(report).items()} == {"r1": running}
    for key in running[1:]:
        cluster.finish(key)
    assert admitted(cluster.leaves(running[0])) == ["r1"]
    assert cluster.used() == {"q": 0, "r": 2000}


@PROFILES
def test_story_4_a_workload_that_can_never_run_evicts_nothing(profile: Profile) -> None:
    cluster = story_4(1, gang=False, profile=profile)
    report = cluster.submit("r1", 2000, pods=1)
    assert victims(report) == {}
    [decision] = report.decisions
    assert isinstance(decision, Wait)
    assert decision.never, "told at once that it cannot run as it is"
    assert (decision.reason, decision.message) == (
        Reason.TOPOLOGY_PLACEMENT_FAILED,
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor elastic-quota, 2 more needed, "
        'topology "elastic-quota" doesn\'t allow to fit any of 1 pod(s). Total nodes: 2; excluded: resource "cpu": 2',
    )
    assert cluster.running == ["q1", "q2"]


# ---- edges


def test_a_quota_is_not_taken_below_its_min_even_where_it_uses_more() -> None:
    cluster = Elastic(TEN, a=(4, 8), b=(6, 8))
    cluster.submit("a1", 3)
    cluster.submit("a2", 3)
    report = cluster.submit("b1", 5)
    assert victims(report) == {}, "without either of them a would have 3 of 4"
    assert waits(report)["b1"].startswith("WaitingForQuota")


def test_the_latest_of_the_lowest_priority_goes_first() -> None:
    cluster = Elastic(TEN, a=(4, 8), b=(6, 8))
    for key, priority in (("a1", 1), ("a2", 0), ("a3", 0), ("a4", 1)):
        cluster.submit(key, 2, priority=priority)
    assert victims(cluster.submit("b1", 3)) == {"b1": ["a3"]}
    assert victims(cluster.submit("b2", 3)) == {"b2": ["a2"]}


def test_one_that_a_quota_can_spare_goes_instead_of_one_that_it_cannot() -> None:
    cluster = Elastic(TEN, a=(4, 8), b=(6, 8))
    cluster.submit("a1", 2, priority=1)
    cluster.submit("a2", 4)
    assert cluster.used()["a"] == 6
    assert victims(cluster.submit("b1", 6)) == {"b1": ["a1"]}, "a2 is lower and later, but a would be left with 2 of 4"


def test_unnamed_resources_are_not_counted() -> None:
    cluster = Elastic(TEN, a=(4, None), b=(6, 8))
    assert admitted(cluster.submit("b1", 5, priority=0)) == ["b1"]
    usage = cluster.ledger.quota.usage(cluster_queue_name("b"))
    assert usage == {("elastic-quota", GPU): 5, ("elastic-quota", "pods"): 5}


def test_a_namespace_that_does_not_name_a_resource_has_no_guarantee_and_no_limit_of_it() -> None:
    cluster = Elastic(TEN, a=(10, None), b=(None, None))
    assert admitted(cluster.submit("b1", 9)) == ["b1"]
    assert victims(cluster.submit("a1", 3)) == {"a1": ["b1"]}


def test_reservations_beyond_the_quota_count_up_to_the_quota() -> None:
    cluster = Elastic(TEN, a=(8, 8), b=(8, 8))
    assert admitted(cluster.submit("a1", 6)) == ["a1"]
    report = cluster.submit("b1", 6)
    assert victims(report) == {}, "a is within its min"
    assert waits(report)["b1"].startswith("TopologyPlacementFailed")
    assert admitted(cluster.submit("b2", 4)) == ["b2"]


def test_pods_are_counted_where_a_quota_names_them() -> None:
    cluster = Elastic(TEN, "pods", a=(2, 3), b=(2, 2))
    assert admitted(cluster.submit("a1", 3)) == ["a1"]
    assert victims(cluster.submit("b1", 2)) == {}, "a would be left with 0 of 2"
    assert admitted(cluster.submit("b2", 1)) == ["b2"]


@pytest.mark.parametrize(
    ("cpus", "want"),
    [
        pytest.param(4, {}, id="it would lose cpus that it is guaranteed"),
        pytest.param(5, {"b1": ["a2"]}, id="it has enough of both"),
        pytest.param(3, {"b1": ["a2"]}, id="it does not use its cpus anyway"),
    ],
)
def test_of_each_resource_a_quota_keeps_the_min_that_it_uses(cpus: int, want: dict[str, list[str]]) -> None:
    """a uses 3 GPUs of min 2, and so many cpus of min 4; a2 has one of each."""
    cluster = Elastic({"n": 4}, a=(2, None), b=(2, None))
    limits = {"a": {"min": {GPU: 2, "cpu": 4}}, "b": {"min": {GPU: 2, "cpu": 10}}}
    every = {name: translation.bounds(ElasticQuota(spec=ElasticQuotaSpec(**of))) for name, of in limits.items()}
    counted = translation.counted(every.values())
    for name, each in every.items():
        cluster.tell(convert_queues.cluster_queue(translation.cluster_queue(name, each, counted)))
    for key, gpus, amount in (("a1", 2, cpus - 1), ("a2", 1, 1)):
        cluster.tell(both(key, gpus, amount, 0.0 if key == "a1" else 1.0))
        cluster.again()
    cluster.tell(both("b1", 2, 1, 2.0))
    assert victims(cluster.again()) == want


def both(key: str, gpus: int, cpus: int, queued: float) -> Workload:
    """One pod of GPUs and cpus."""
    to = cluster_queue_name(key[0])
    return Workload(key, key, f"ns/{to}", to, (PodSet("main", 1, {GPU: gpus, "cpu": cpus * 1000}),), queued=queued)


@pytest.mark.parametrize("profile", [Profile.EXACT, Profile.COMPATIBLE])
def test_under_fair_sharing_elastic_quotas_keep_their_own_rules(profile: Profile) -> None:
    cluster = Elastic(TEN, GPU, profile, fair=True, a=(4, 6), b=(6, 8))
    for key, amount in (("a1", 2), ("b1", 3), ("a2", 2), ("a3", 2)):
        assert admitted(cluster.submit(key, amount)) == [key]
    assert victims(cluster.submit("b2", 3)) == {"b2": ["a3"]}
    assert admitted(cluster.leaves("a3")) == ["b2"]
    assert victims(cluster.submit("b3", 2)) == {}


# ---- any history

SMALL: dict[str, Limits] = {"a": (3, 4), "b": (4, 6), "c": (0, 5), "d": (3, None)}
arrivals = st.tuples(st.sampled_from(sorted(SMALL)), st.integers(1, 4), st.booleans(), st.integers(0, 2), st.booleans())
steps = st.lists(st.one_of(arrivals, arrivals, st.integers(0, 20), st.just("leave")), max_size=30)


class ElasticHistory(Elastic):
    """One in which it is noted who is on its way out and for whom; like the shell, it tells the ledger of evictions."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(TEN, GPU, profile, False, **SMALL)
        self.leaving: dict[str, str] = {}

    def again(self) -> CycleReport:
        before = self.used()
        report = super().again()
        robbed = set()
        for decision in report.decisions:
            if isinstance(decision, Preempt):
                self._check(decision, before)
                robbed |= {_of(victim.workload) for victim in decision.victims} - {_of(decision.workload)}
        for name, (least, most) in SMALL.items():
            assert most is None or self.of(name) <= most
            # what ends by itself later, while others are on their way out, is nobody's fault
            taken = sum(self._amount(key) for key, by in self.leaving.items() if _of(key) == name != by)
            assert name not in robbed or self.of(name) - taken >= (least or 0)
        assert sum(self.used().values()) <= 10
        return report

    def _check(self, decision: Preempt, before: Mapping[str, int]) -> None:
        """Who goes is another's, for one that stays within its min; or own and of lower priority, for one that does not."""
        head = self.queues.workload(decision.workload)
        assert head is not None
        mine, minimum = _of(head.key), SMALL[_of(head.key)][0] or 0
        pods = [(p.requests[GPU], p.min_count or p.count, p.count) for p in head.pod_sets]
        for victim in decision.victims:
            gone = self.ledger.workload(victim.workload)
            assert gone is not None
            if _of(gone.key) == mine:
                assert gone.priority < head.priority
                assert self.of(mine) + sum(each * most for each, _, most in pods) > minimum
            else:
                assert before[mine] + sum(each * least for each, least, _ in pods) <= minimum
            self.leaving.setdefault(gone.key, mine)
            self.ledger.apply(replace(gone, evicted=True))

    def _amount(self, key: str) -> int:
        admission = self.ledger.admission(key)
        return admission.usage()["elastic-quota", GPU] if admission else 0


def _of(key: str) -> str:
    return key.rstrip("0123456789")


@settings(deadline=None, max_examples=examples(30))
@given(steps, st.sampled_from(list(Profile)))
def test_no_history_takes_a_quota_below_its_min_or_lets_anybody_pass_max(
    history: list[object], profile: Profile
) -> None:
    cluster = ElasticHistory(profile)
    for index, step in enumerate(history):
        match step:
            case (str() as name, int() as amount, bool() as whole, int() as priority, bool() as few):
                pods = 1 if whole and amount <= 2 else amount
                cluster.submit(f"{name}{index}", amount, pods=pods, least=1 if few else None, priority=priority)
            case int() as which if cluster.running:
                cluster.finish(cluster.running[which % len(cluster.running)])
                cluster.again()
            case "leave":
                for key in cluster.leaving:
                    cluster.finish(key)
                cluster.leaving.clear()
                cluster.again()
