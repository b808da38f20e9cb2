"""The search through flavors: who suits whom, how the quota fits, in which words; and the fungibility policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.flavors.assign import FlavorAssignment, Mode, NoPreemption, PreemptionOracle
from admission.engine.flavors.search import FlavorSearch, QuotaQueries, Scope, Searches
from admission.engine.journal import Journal
from admission.engine.model import (
    ClusterQueue,
    Flavor,
    FlavorResource,
    FungibilityPolicy,
    LevelConstraint,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSet,
    PreemptionPolicy,
    Quota,
    SliceLayer,
    Taint,
    Toleration,
    TopologyRequest,
    Workload,
)
from admission.engine.quota.tree import QuotaTree
from admission.engine.reasons import Reason
from tests.admission.engine.builders import CPU, HOST, RACK, group
from tests.budgets import examples

GPU = "example.com/gpu"


def search(
    queue: ClusterQueue,
    flavors: list[Flavor],
    *pod_sets: PodSet,
    used: Mapping[FlavorResource, int] | None = None,
    others: tuple[ClusterQueue, ...] = (),
    oracle: PreemptionOracle | None = None,
    refused: Mapping[tuple[str, str], str] | None = None,
) -> FlavorAssignment:
    quota = QuotaTree(Journal())
    for each in (queue, *others):
        quota.set_queue(each)
    quota.add(queue.name, used or {})
    known = {flavor.name: flavor for flavor in flavors}
    look = FlavorSearch(queue, known, quota, oracle or NoPreemption(quota), Scope(refused or {}))
    return look.assign(Workload("ns/w", "u", "ns/q", queue.name, pod_sets))


def pods(count: int = 1, name: str = "main", **requests: int) -> PodSet:
    return PodSet(name, count, {resource.replace("gpu", GPU): amount for resource, amount in requests.items()})


def one(flavor: Flavor, pod_set: PodSet) -> FlavorAssignment:
    """A search in a queue that has this one flavor and 10 cpus of it."""
    return search(ClusterQueue("q", (group({flavor.name: {"cpu": 10 * CPU}}),)), [flavor], pod_set)


@pytest.mark.parametrize(
    ("level", "gpus", "flavor"),
    [
        pytest.param(RACK, 4, "racks", id="the flavor that has the level"),
        pytest.param(HOST, 4, "flat", id="both have the level"),
        pytest.param("row", 4, "flat", id="neither has the level"),
        pytest.param(RACK, 6, "flat", id="no quota where the level is"),
    ],
)
def test_a_flavor_that_lacks_the_level_of_a_constraint_comes_last(level: str, gpus: int, flavor: str) -> None:
    flavors = [Flavor("flat", topology="flat", levels=(HOST,)), Flavor("racks", topology="racks", levels=(RACK, HOST))]
    shape = TopologyRequest(unconstrained=True, constraints=(LevelConstraint(level),))
    queue = ClusterQueue("q", (group({"flat": {GPU: 8}, "racks": {GPU: 4}}),))
    (assigned,) = search(queue, flavors, replace(pods(gpus, gpu=1), topology=shape)).pod_sets
    assert {pick.flavor for pick in assigned.picks.values()} == {flavor}


# ---- suitability

SPOT = (Taint(key="instance", value="spot", effect="NoSchedule"),)
ZONED = {"zone": "a", "gen": "3"}


def term(key: str, operator: str, *values: str) -> tuple[NodeSelectorTerm, ...]:
    return (NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key=key, operator=operator, values=values),)),)


@pytest.mark.parametrize(
    ("flavor", "pod_set", "message"),
    [
        pytest.param(
            Flavor("f", taints=SPOT), pods(cpu=1), "untolerated taint {instance spot NoSchedule <nil>} in flavor f",
            id="taint",
        ),
        pytest.param(
            Flavor("f", taints=SPOT), replace(pods(cpu=1), tolerations=(Toleration(operator="Exists"),)), None,
            id="taint that the pods tolerate",
        ),
        pytest.param(
            Flavor("f", taints=SPOT, tolerations=(Toleration(key="instance", value="spot"),)), pods(cpu=1), None,
            id="taint that the flavor itself tolerates",
        ),
        pytest.param(
            Flavor("f", taints=(Taint(key="k", effect="PreferNoSchedule"),)), pods(cpu=1), None, id="soft taint",
        ),
        pytest.param(
            Flavor("f", ZONED), replace(pods(cpu=1), node_selector={"zone": "b"}),
            "flavor f doesn't match node affinity", id="selector",
        ),
        pytest.param(
            Flavor("f", ZONED), replace(pods(cpu=1), node_selector={"zone": "a", "disk": "ssd"}), None,
            id="selector on a label that the flavor does not name",
        ),
        pytest.param(
            Flavor("f", ZONED), replace(pods(cpu=1), affinity=term("zone", "NotIn", "a")),
            "flavor f doesn't match node affinity", id="affinity",
        ),
        pytest.param(
            Flavor("f", ZONED), replace(pods(cpu=1), affinity=term("zone", "In", "b") + term("gen", "Gt", "2")), None,
            id="one of the affinity terms is enough",
        ),
        pytest.param(
            Flavor("f", ZONED), replace(pods(cpu=1), affinity=term("disk", "In", "ssd")), None,
            id="affinity to a label that the flavor does not name",
        ),
        pytest.param(
            Flavor("f", ZONED), replace(pods(cpu=1), affinity=term("zone", "DoesNotExist")),
            "flavor f doesn't match node affinity", id="label must be absent",
        ),
    ],
)  # fmt: skip
def test_taints_and_labels_of_the_flavor(flavor: Flavor, pod_set: PodSet, message: str | None) -> None:
    expect(one(flavor, pod_set), message, Reason.NO_MATCHING_FLAVOR)


def expect(assignment: FlavorAssignment, message: str | None, reason: Reason) -> None:
    if message is None:
        assert (assignment.mode, assignment.message()) == (Mode.FIT, "")
    else:
        assert (assignment.mode, assignment.reason) == (Mode.NO_FIT, reason)
        assert assignment.message() == f"couldn't assign flavors to pod set main: {message}"


RACKS = Flavor("tas", {"pool": "tas"}, topology="default", levels=(RACK, HOST))


@pytest.mark.parametrize(
    ("flavor", "topology", "message"),
    [
        pytest.param(RACKS, TopologyRequest(required=RACK), None, id="required level"),
        pytest.param(RACKS, TopologyRequest(preferred="auto"), None, id="auto is the lowest level of any flavor"),
        pytest.param(RACKS, TopologyRequest(unconstrained=True), None, id="unconstrained"),
        pytest.param(RACKS, TopologyRequest(slices=(SliceLayer(HOST, 2),), slice_topology_only=True), None, id="slices only"),
        pytest.param(RACKS, None, None, id="implied where all flavors have a topology"),
        pytest.param(RACKS, TopologyRequest(explicit=False), None, id="an index label asks for nothing"),
        pytest.param(
            RACKS, TopologyRequest(required="block"), 'Flavor "tas" does not contain the requested level', id="unknown level"
        ),
        pytest.param(
            RACKS, TopologyRequest(required=RACK, slices=(SliceLayer("block", 2),)),
            'Flavor "tas" does not contain the requested level', id="unknown level of a slice",
        ),
        pytest.param(
            Flavor("tas"), TopologyRequest(required=RACK), 'Flavor "tas" does not support TopologyAwareScheduling',
            id="flavor without topology",
        ),
        pytest.param(
            replace(RACKS, levels=None), TopologyRequest(required=RACK), 'Flavor "tas" information missing in TAS cache',
            id="topology missing",
        ),
    ],
)  # fmt: skip
def test_topology_of_the_flavor(flavor: Flavor, topology: TopologyRequest | None, message: str | None) -> None:
    found = one(flavor, replace(pods(cpu=1), topology=topology))
    expect(found, message, Reason.NO_MATCHING_FLAVOR)
    if message is None:
        assert found.pod_sets[0].topology == "tas"


def test_in_a_mixed_queue_a_topology_flavor_takes_topology_requests_only() -> None:
    queue = ClusterQueue("q", (group({"tas": {"cpu": 9 * CPU}, "plain": {"cpu": 9 * CPU}}),))
    plain = search(queue, [RACKS, Flavor("plain")], pods(cpu=CPU))
    assert (plain.pod_sets[0].picks["cpu"].flavor, plain.pod_sets[0].topology) == ("plain", None)
    only = search(queue, [RACKS, Flavor("plain")], pods(10, cpu=CPU))
    assert 'Flavor "tas" supports only TopologyAwareScheduling' in only.message()


def test_two_topology_flavors_for_one_pod_set_are_an_error() -> None:
    queue = ClusterQueue("q", (group({"a": {"cpu": 9}}), group({"b": {GPU: 9}})))
    flavors = [replace(RACKS, name="a"), replace(RACKS, name="b")]
    found = search(queue, flavors, replace(pods(cpu=1, gpu=1), topology=TopologyRequest(required=RACK)))
    assert found.mode is Mode.NO_FIT
    assert found.message() == "failed to assign flavors to pod set main: more than one TAS flavor assigned: a, b"


def test_a_leader_without_requests_goes_where_its_group_goes() -> None:
    queue = ClusterQueue("q", (group({"tas": {"cpu": 9}}),))
    topology = TopologyRequest(required=RACK, group="g")
    found = search(
        queue,
        [RACKS],
        replace(pods(name="leader"), topology=topology),
        replace(pods(3, "workers", cpu=1), topology=topology),
    )
    assert [(p.name, p.topology, dict(p.requests)) for p in found.pod_sets] == [
        ("leader", "tas", {}),
        ("workers", "tas", {"cpu": 3}),
    ]


# ---- quota

TWO = ClusterQueue("q", (group({"one": {"cpu": 4 * CPU}, "two": {"cpu": 2 * CPU}}),))
ONE_TWO = [Flavor("one"), Flavor("two")]


@pytest.mark.parametrize(
    ("used", "cpus", "flavor", "reason", "message"),
    [
        pytest.param(0, 4, "one", None, "", id="the first that fits"),
        pytest.param(3, 2, "two", None, "", id="the next where the first is used up"),
        pytest.param(
            3, 3, None, Reason.WAITING_FOR_QUOTA,
            "insufficient quota for cpu in flavor two, previously considered podsets requests (0) + current podset "
            "request (3) > maximum capacity (2), insufficient unused quota for cpu in flavor one, 2 more needed",
            id="the mildest reason counts, all are told",
        ),
        pytest.param(
            0, 5, None, Reason.EXCEEDS_MAX_QUOTA,
            "insufficient quota for cpu in flavor one, previously considered podsets requests (0) + current podset "
            "request (5) > maximum capacity (4), insufficient quota for cpu in flavor two, previously considered "
            "podsets requests (0) + current podset request (5) > maximum capacity (2)",
            id="more than there will ever be",
        ),
    ],
)  # fmt: skip
def test_flavors_in_order_of_the_queue(
    used: int, cpus: int, flavor: str | None, reason: Reason | None, message: str
) -> None:
    found = search(TWO, ONE_TWO, pods(cpu=cpus * CPU), used={("one", "cpu"): used * CPU})
    if flavor:
        assert (found.mode, found.pod_sets[0].picks["cpu"].flavor) == (Mode.FIT, flavor)
        assert found.usage == {(flavor, "cpu"): cpus * CPU}
    else:
        assert found.mode < Mode.FIT
        assert found.reason is reason
    assert found.message() == (f"couldn't assign flavors to pod set main: {message}" if message else "")


def test_amounts_are_written_as_quantities() -> None:
    queue = ClusterQueue("q", (group({"f": {"cpu": 1500, "memory": 1 << 30}}),))
    found = search(queue, [Flavor("f")], pods(cpu=1600, memory=1))
    assert "(1600m) > maximum capacity (1500m)" in found.message()
    found = search(queue, [Flavor("f")], pods(memory=1 << 30), used={("f", "memory"): 256 << 20})
    assert "insufficient unused quota for memory in flavor f, 256Mi more needed" in found.message()


def test_an_uncovered_resource_is_refused_unless_the_request_is_zero() -> None:
    found = search(TWO, ONE_TWO, pods(cpu=CPU, gpu=1))
    expect(found, f"resource {GPU} unavailable in ClusterQueue", Reason.NO_MATCHING_FLAVOR)
    assert search(TWO, ONE_TWO, pods(cpu=CPU, gpu=0)).mode is Mode.FIT


def test_pods_count_where_there_is_quota_for_them() -> None:
    queue = ClusterQueue("q", (group({"f": {"cpu": 9 * CPU, "pods": 3}}),))
    assert search(queue, [Flavor("f")], pods(3, cpu=1)).usage == {("f", "cpu"): 3, ("f", "pods"): 3}
    assert "insufficient quota for pods in flavor f" in search(queue, [Flavor("f")], pods(4, cpu=1)).message()


def test_earlier_pod_sets_count_against_the_quota() -> None:
    found = search(TWO, ONE_TWO[:1], pods(name="a", cpu=3 * CPU), pods(name="b", cpu=2 * CPU))
    assert [pod_set.mode for pod_set in found.pod_sets] == [Mode.FIT, Mode.NO_FIT]
    assert found.message() == (
        "couldn't assign flavors to pod set b: flavor two not found, insufficient quota for cpu in flavor one, "
        "previously considered podsets requests (3) + current podset request (2) > maximum capacity (4)"
    )


def test_a_placement_group_gets_one_flavor_for_the_sum() -> None:
    queue = ClusterQueue("q", (group({"one": {"cpu": 4, GPU: 4}, "two": {"cpu": 5, GPU: 4}}),))
    grouped = TopologyRequest(group="g", explicit=False)
    found = search(
        queue,
        ONE_TWO,
        replace(pods(4, "workers", cpu=1, gpu=1), topology=grouped),
        replace(pods(1, "leader", cpu=1), topology=grouped),
    )
    assert [{r: p.flavor for r, p in pod_set.picks.items()} for pod_set in found.pod_sets] == [
        {"cpu": "two", GPU: "two"},
        {"cpu": "two"},
    ]


def test_a_flavor_that_placement_refused_is_skipped_and_reported() -> None:
    found = search(TWO, ONE_TWO, pods(cpu=CPU), refused={("main", "one"): "no room in one"})
    assert found.pod_sets[0].picks["cpu"].flavor == "two"
    both = {("main", "one"): "no room in one", ("main", "two"): "no room in two"}
    found = search(TWO, ONE_TWO, pods(cpu=CPU), refused=both)
    expect(found, "no room in one, no room in two", Reason.TOPOLOGY_PLACEMENT_FAILED)


# ---- borrowing and what eviction could do


@dataclass
class PreparedOracle:
    """An oracle with prepared answers."""

    answers: dict[str, tuple[Mode, int]] = field(default_factory=dict)

    def simulate(self, queue: str, fr: FlavorResource, amount: int) -> tuple[Mode, int]:
        return self.answers.get(fr[0], (Mode.NO_CANDIDATES, 0))


COHORT = replace(TWO, cohort="team", preemption=PreemptionPolicy("Any", "LowerPriority", "LowerPriority"))
RICH = ClusterQueue("r", (group({"one": {"cpu": Quota(9 * CPU)}}),), "team")


@pytest.mark.parametrize(
    ("policy", "answers", "cpus", "flavor", "mode", "level"),
    [
        pytest.param(FungibilityPolicy(), {}, 5, "one", Mode.FIT, 1, id="borrows at once"),
        pytest.param(
            FungibilityPolicy(when_can_borrow="TryNextFlavor"), {}, 2, "two", Mode.FIT, 0, id="rather the next flavor"
        ),
        pytest.param(
            FungibilityPolicy(when_can_borrow="TryNextFlavor"), {}, 5, "one", Mode.FIT, 1,
            id="back to the first where the next does not fit",
        ),
        pytest.param(
            FungibilityPolicy(when_can_preempt="MayStopSearch"), {"one": (Mode.PREEMPT, 0)}, 12, "one", Mode.PREEMPT, 0,
            id="stops where it can preempt",
        ),
        pytest.param(
            FungibilityPolicy("TryNextFlavor", "TryNextFlavor"), {"one": (Mode.RECLAIM, 1), "two": (Mode.PREEMPT, 0)}, 2,
            "one", Mode.RECLAIM, 1, id="prefers the better preemption over less borrowing",
        ),
        pytest.param(
            FungibilityPolicy("TryNextFlavor", "TryNextFlavor", "PreemptionOverBorrowing"),
            {"one": (Mode.RECLAIM, 1), "two": (Mode.PREEMPT, 0)}, 2,
            "two", Mode.PREEMPT, 0, id="or the other way round",
        ),
        pytest.param(FungibilityPolicy(), {}, 12, "one", Mode.NO_CANDIDATES, 1, id="nobody to evict"),
    ],
)  # fmt: skip
def test_the_fungibility_policy(
    policy: FungibilityPolicy,
    answers: dict[str, tuple[Mode, int]],
    cpus: int,
    flavor: str,
    mode: Mode,
    level: int,
) -> None:
    used = {("one", "cpu"): 3 * CPU}
    if answers and cpus == 2:
        used = {("one", "cpu"): 12 * CPU, ("two", "cpu"): CPU}
    queue = replace(COHORT, fungibility=policy)
    oracle = PreparedOracle(answers) if answers else None
    found = search(queue, ONE_TWO, pods(cpu=cpus * CPU), used=used, others=(RICH,), oracle=oracle)
    assert (found.mode, found.pod_sets[0].picks["cpu"].flavor, found.level) == (mode, flavor, level)


def test_without_leave_to_preempt_while_borrowing_it_waits() -> None:
    queue = replace(COHORT, preemption=PreemptionPolicy("Any"))
    found = search(
        queue, ONE_TWO, pods(cpu=12 * CPU), used={("one", "cpu"): 3 * CPU}, others=(RICH,), oracle=PreparedOracle()
    )
    assert (found.mode, found.reason) == (Mode.NO_FIT, Reason.WAITING_FOR_QUOTA)


# ---- a search that goes on


@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_a_search_that_goes_on_finds_what_a_new_one_finds(data: st.DataObject) -> None:
    names, amounts = ["a", "b", "c", "d"], st.integers(0, 4)
    flavors = {name: Flavor(name) for name in names[: data.draw(st.integers(1, 4))]}
    cpus = group({name: {"cpu": data.draw(amounts) * CPU} for name in flavors})
    gpus = group({name: {GPU: data.draw(amounts)} for name in flavors})
    policy = FungibilityPolicy(*data.draw(st.sampled_from([("Borrow", "TryNextFlavor"), ("TryNextFlavor", "Preempt")])))
    queue = ClusterQueue("q", (cpus, gpus), fungibility=policy)
    quota = QuotaTree(Journal())
    quota.set_queue(queue)
    quota.add("q", {(name, "cpu"): data.draw(amounts) * CPU // 2 for name in flavors})
    workload = Workload(
        "ns/w", "u", "ns/q", "q", (pods(1, "one", cpu=CPU, gpu=data.draw(amounts)), pods(2, "two", cpu=CPU, gpu=1))
    )
    refused: dict[tuple[str, str], str] = {}
    searches: Searches = {}
    for text in data.draw(st.lists(st.text("xyz", max_size=1), max_size=6)):
        asked, asked_anew = QuotaQueries(), QuotaQueries()
        scope, oracle = Scope(dict(refused)), NoPreemption(quota)
        on = FlavorSearch(queue, flavors, quota, oracle, scope, asked, searches).assign(workload)
        assert on == FlavorSearch(queue, flavors, quota, oracle, scope, asked_anew).assign(workload)
        assert asked == asked_anew
        refused[data.draw(st.sampled_from(["one", "two"])), data.draw(st.sampled_from(names))] = text
