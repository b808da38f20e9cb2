"""Explanations of clusters that nobody thought of: remedies hold when applied, and what cannot run cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from admission.engine.decide import decide
from admission.engine.explain.changes import Finish, LetEvict, Remedy
from admission.engine.explain.cycle_decision import DecisionInputs
from admission.engine.explain.explain import explain
from admission.engine.explain.explanation import Verdict
from admission.engine.explain.explanation_json import to_wire
from admission.engine.explain.wording import headline
from admission.engine.model import (
    BoundPod,
    ClusterQueue,
    Event,
    LevelConstraint,
    Node,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSet,
    PreemptionPolicy,
    Quota,
    SliceLayer,
    Spreading,
    Taint,
    TopologyRequest,
    Workload,
)
from admission.engine.quota.fairness import FairSharingRules
from tests.admission.engine.builders import BEST, CPU, HOST, RACK, STRICT, Cluster, admitted, queue, workload
from tests.admission.engine.explain.applied_remedies import admits, apply, lets_in
from tests.admission.engine.explain.bruteforce import could_run
from tests.admission.engine.explain.situations import BLOCK, MAINTENANCE, W, beside, blocks, tree
from tests.budgets import quick

_DISK, _NO_DISK = (
    NodeSelectorTerm(match_expressions=(NodeSelectorRequirement("disk", operator, ("hdd",)),))
    for operator in ("In", "NotIn")
)

Recipe = tuple[Event, ...]

topologies = st.sampled_from(
    [
        TopologyRequest(required=HOST),
        TopologyRequest(required=RACK),
        TopologyRequest(required=BLOCK),
        TopologyRequest(required=BLOCK, slices=(SliceLayer(HOST, 2),)),
        TopologyRequest(required=RACK, slices=(SliceLayer(HOST, 2),)),
    ]
)


def lawful(topology: TopologyRequest) -> st.SearchStrategy[TopologyRequest]:
    """The request with a hard constraint on racks or hosts."""
    constraint = st.one_of(
        st.builds(LevelConstraint, st.sampled_from([RACK, HOST]), spreading=st.sampled_from(Spreading)),
        st.builds(LevelConstraint, st.just(HOST), minimum=st.integers(1, 3), maximum=st.integers(3, 4)),
        st.builds(LevelConstraint, st.sampled_from([RACK, HOST]), factor=st.integers(2, 3)),
        st.builds(
            LevelConstraint,
            st.sampled_from([RACK, HOST]),
            spreading=st.just(Spreading.SPREAD),
            partitions=st.integers(2, 3),
        ),
    )
    return constraint.map(lambda item: replace(topology, constraints=(replace(item, hard=True),)))


bound_asks = st.sampled_from(
    [TopologyRequest(required=RACK), TopologyRequest(required=BLOCK), TopologyRequest(unconstrained=True)]
)
constrained_asks = bound_asks.flatmap(lawful)

leads = st.sampled_from([TopologyRequest(required=level, group="g") for level in (HOST, RACK, BLOCK)])

loose_asks = st.sampled_from(
    [TopologyRequest(preferred=RACK), TopologyRequest(preferred=BLOCK), TopologyRequest(unconstrained=True)]
)


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    """Up to eight hosts of several sizes, some of them tainted, some with another disk."""
    made = tree(block=draw(st.integers(1, 2)), rack=2, hosts=draw(st.integers(1, 2)))
    return [
        replace(
            node,
            allocatable={"cpu": draw(st.integers(1, 5)) * CPU, "pods": 20},
            taints=draw(st.sampled_from([(), (), (), (MAINTENANCE,), (Taint(key="x", effect="NoExecute"),)])),
            labels={**node.labels, "disk": draw(st.sampled_from(["ssd", "hdd"]))},
        )
        for node in made
    ]


@st.composite
def recipes(draw: st.DrawFn) -> tuple[Workload, Recipe]:
    """A workload, and the cluster beside which it comes."""
    hosts = draw(nodes())
    used = [
        workload(
            f"ns/u{i}",
            draw(st.integers(1, 4)),
            topology=draw(topologies.filter(lambda topology: not topology.slices)),
            queued=i,
        )
        for i in range(draw(st.integers(0, 4)))
    ]
    loose = [
        BoundPod(f"ns/p{i}", draw(st.sampled_from(hosts)).name, {"cpu": CPU}) for i in range(draw(st.integers(0, 2)))
    ]
    mine, other = draw(st.integers(1, 16)), draw(st.integers(0, 6))
    queues = (queue("q", cohort="all", tas=Quota(mine * CPU)), queue("o", cohort="all", tas=Quota(other * CPU)))
    number = draw(st.sampled_from([1, 1, 1, 2, 2]))
    partial = draw(
        st.sampled_from([None, None, 0])
    )  # which pod set may start with fewer pods: one at most, says the webhook
    together = draw(leads) if number > 1 and draw(st.booleans()) else None
    pod_sets = tuple(
        PodSet(
            f"p{i}",
            1 if together is not None and i == 0 else 2 * draw(st.integers(1, 3)),
            {"cpu": draw(st.sampled_from([500, CPU, 2 * CPU]))},
            topology=together or draw(topologies if number > 1 else topologies | loose_asks | constrained_asks),
            node_selector=draw(st.sampled_from([{}, {}, {"disk": "ssd"}])),
            affinity=draw(st.sampled_from([None, None, (_DISK,), (_DISK, _NO_DISK)])),
        )
        for i in range(number)
    )
    if partial is not None and pod_sets[partial].count > 1:
        some = replace(pod_sets[partial], min_count=draw(st.integers(1, pod_sets[partial].count - 1)))
        pod_sets = (*pod_sets[:partial], some, *pod_sets[partial + 1 :])
    return Workload(W, "uid", "ns/q", "q", pod_sets, queued=9), (blocks(), *hosts, *queues, *used, *loose)


def waiting(recipe: tuple[Workload, Recipe]) -> tuple[Cluster, Workload]:
    """The cluster freshly made."""
    return beside(recipe[0], *recipe[1]), recipe[0]


def check(recipe: tuple[Workload, Recipe]) -> None:
    cluster, made = waiting(recipe)
    found = explain(cluster.ledger, made, 0.0)
    assume(found.verdict in (Verdict.WAITS, Verdict.CANNOT_RUN))
    assert cluster.ledger.audit() == []
    assert headline(found)
    assert to_wire(found)["codes"][0] == found.reason
    if found.verdict is Verdict.CANNOT_RUN:
        assert not could_run(cluster.ledger, made)
    for view in found.flavors:
        for level in (level for pod_set in view.pod_sets for level in pod_set.levels):
            assert all(one.free < one.asked for one in level.shortages)
            assert all(one.free >= one.asked for one in level.torn)
    for remedy in found.remedies:
        fresh, same = waiting(recipe)
        assert admits(fresh, same, remedy), remedy
        for change in remedy.changes:
            if isinstance(change, Finish) and len(remedy.changes) == 1:
                for needless in change.workloads:  # of those who are to finish none can stay
                    fresh, same = waiting(recipe)
                    rest = tuple(key for key in change.workloads if key != needless)
                    assert not admits(fresh, same, Remedy((Finish(rest),))), (remedy, needless)
    again, same = waiting(recipe)
    assert explain(again.ledger, same, 0.0) == found


@given(recipes())
@settings(
    max_examples=quick(8), deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
def test_remedies_hold_and_verdicts_are_true(recipe: tuple[Workload, Recipe]) -> None:
    """Also those of jobs that may start with fewer pods."""
    check(recipe)


@pytest.mark.long
@given(recipes())
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_remedies_hold_and_verdicts_are_true_long(recipe: tuple[Workload, Recipe]) -> None:
    check(recipe)


# ---- behind others

Line = tuple[tuple[Workload, Recipe], tuple[Workload, ...], bool]


@st.composite
def lines(draw: st.DrawFn) -> Line:
    """A workload beside others that wait, of its queue and another, and whether its queue is a StrictFIFO queue."""
    others = tuple(
        replace(
            workload(
                f"ns/x{i}",
                draw(st.integers(1, 6)),
                to=draw(st.sampled_from("qqo")),
                topology=draw(loose_asks | bound_asks),
            ),
            queued=draw(st.integers(5, 12)),
            priority=draw(st.sampled_from([0, 0, 1])),
        )
        for i in range(draw(st.integers(1, 3)))
    )
    return draw(recipes()), others, draw(st.booleans())


def in_line(line: Line) -> tuple[Cluster, Workload]:
    """The cluster freshly made, with those that wait."""
    (made, events), others, strict = line
    policy = STRICT if strict else BEST
    events = tuple(replace(e, strategy=policy) if isinstance(e, ClusterQueue) and e.name == "q" else e for e in events)
    cluster = beside(made, *events)
    cluster.tell(*others)
    cluster.queues.remove(W)
    cluster.cycle()
    cluster.tell(made)
    return cluster, made


def starts(line: Line, remedy: Remedy) -> bool:
    """Whether a cycle of all that wait admits the workload once the remedy is applied."""
    cluster, made = in_line(line)
    for change in remedy.changes:
        made = apply(cluster, made, change)
    cluster.queues.lines.requeue({"q", "o"})
    return lets_in(cluster, made, lambda: decide(cluster.ledger, cluster.queues, 0.0, 100))


def check_line(line: Line) -> None:
    cluster, made = in_line(line)
    found = explain(cluster.ledger, made, 0.0, inputs=DecisionInputs(cluster.queues))
    assume(found.verdict in (Verdict.WAITS, Verdict.CANNOT_RUN))
    assert cluster.ledger.audit() == []
    assert headline(found)
    for remedy in found.remedies:
        assert starts(line, remedy), remedy
    for taken in found.taken:
        assert taken.by
        assert not starts(line, taken.remedy), taken


@given(lines())
@settings(
    max_examples=quick(16), deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
def test_remedies_hold_with_all_that_come_first(line: Line) -> None:
    check_line(line)


@pytest.mark.long
@given(lines())
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_remedies_hold_with_all_that_come_first_long(line: Line) -> None:
    check_line(line)


# ---- where others may be evicted

Evicting = tuple[Line, tuple[PreemptionPolicy, PreemptionPolicy], int, FairSharingRules | None]

policies = st.builds(
    PreemptionPolicy,
    within_cluster_queue=st.sampled_from(["Never", "LowerPriority"]),
    reclaim_within_cohort=st.sampled_from(["Never", "LowerPriority", "Any"]),
)
evictings = st.tuples(
    lines(), st.tuples(policies, policies), st.integers(0, 2), st.sampled_from([None, FairSharingRules()])
)


def evicting(scene: Evicting) -> tuple[Cluster, Workload]:
    """The line, with queues that may evict and a workload of some priority."""
    ((made, events), others, strict), (mine, theirs), priority, _ = scene
    events = tuple(
        replace(e, preemption=mine if e.name == "q" else theirs) if isinstance(e, ClusterQueue) else e for e in events
    )
    return in_line(((replace(made, priority=priority), events), others, strict))


def check_evicting(scene: Evicting) -> None:
    cluster, made = evicting(scene)
    sharing = scene[-1]
    found = explain(cluster.ledger, made, 0.0, inputs=DecisionInputs(cluster.queues, sharing))
    assert cluster.ledger.audit() == []
    for remedy in found.remedies:
        if any(isinstance(change, LetEvict) for change in remedy.changes):
            continue  # it starts when all victims have left, those of others, too: test_waiting_cases.py
        fresh, same = evicting(scene)
        for change in remedy.changes:
            same = apply(fresh, same, change)
        fresh.queues.lines.requeue({"q", "o"})
        fresh.queues.put(same)
        report = decide(fresh.ledger, fresh.queues, 0.0, 100, sharing)
        assert same.key in admitted(report), remedy  # at once: nobody is evicted for it


@given(evictings)
@settings(
    max_examples=quick(16), deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
def test_remedies_hold_where_others_are_evicted(scene: Evicting) -> None:
    check_evicting(scene)


@pytest.mark.long
@given(evictings)
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_remedies_hold_where_others_are_evicted_long(scene: Evicting) -> None:
    check_evicting(scene)
