"""Small clusters in which one workload needs others to leave: drawn by hypothesis, and asked about without any search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from hypothesis import assume
from hypothesis import strategies as st

from admission.engine.flavors.assign import FlavorAssignment, Mode, Pick, PodSetFlavors
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Admission,
    Assignment,
    BoundPod,
    ClusterQueue,
    Cohort,
    DomainCount,
    Flavor,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    PodSetAdmission,
    PreemptionPolicy,
    Profile,
    Quota,
    SliceLayer,
    TopologyRequest,
    Workload,
)
from admission.engine.preemption.candidates import Candidate, PreemptionContext, PreemptionVariant, find
from admission.engine.preemption.preemptor import needed
from admission.engine.quota.cohorts import QuotaNode
from admission.engine.requests import placement_requests
from admission.engine.topology.allocation.entries import Allocation
from tests.admission.engine.builders import CPU, HOST, RACK, group, host, racks

NOW = 10_000.0
QUEUES = ("a", "b", "c")


@dataclass(frozen=True)
class DrawnCluster:
    """`head` wants room in queue `a`; `running` are admitted."""

    ledger: Ledger
    head: Workload
    assignment: FlavorAssignment
    running: tuple[Workload, ...]

    def __repr__(self) -> str:
        """What one needs to see of an example that fails."""
        runs = [_shown(allocation) for name in QUEUES for allocation in self.ledger.charged_to(name)]
        queues = [self.ledger.quota.spec(name) for name in QUEUES]
        told = [(q.name, q.cohort, q.groups[0].flavors[0].quotas, q.preemption) for q in queues if q]
        return "\n".join(map(str, (self.head.priority, self.head.pod_sets, *told, *runs)))

    def context(self) -> PreemptionContext:
        """What is asked of the searches."""
        spec, node = self.ledger.quota.spec("a"), self.ledger.quota.node("a")
        assert spec is not None
        assert node is not None
        usage = self.assignment.usage
        return PreemptionContext(self.head, spec, node, usage, needed(self.assignment), self.requests(), NOW)

    def requests(self) -> list[PlacementRequest]:
        """What is to be placed."""
        spec = self.ledger.quota.spec("a")
        assert spec is not None
        return placement_requests(self.head, spec, self.assignment, self.ledger.flavors, NOW)

    def fits_without(self, victims: Sequence[str], *, borrowing: bool = True) -> bool:
        """Whether the head fits, quota and placement, when these workloads and their pods have left."""
        with self.ledger.trial():
            for key in victims:
                self.ledger.remove_with_pods(key)
            quota, usage = self.ledger.quota, self.assignment.usage
            if not quota.fits("a", usage):
                return False
            if not borrowing:
                used = quota.usage("a")
                if any(used.get(fr, 0) + amount > quota.nominal("a", fr) for fr, amount in usage.items()):
                    return False
            requests = self.requests()
            return not requests or self.ledger.placement.place(requests).fits

    def allowed_together(self, ordered: Sequence[Candidate], *, borrowing: bool) -> bool:
        """Whether they may leave one after the other: each from its own queue, or from one that has more than its own."""
        wanted = self.context().needed
        with self.ledger.trial():
            for candidate in ordered:
                if candidate.variant is not PreemptionVariant.WITHIN_CLUSTER_QUEUE:
                    if borrowing and candidate.variant is PreemptionVariant.RECLAIM_WITHOUT_BORROWING:
                        return False
                    if not all(_exceeds(node, wanted) for node in _below(candidate)):
                        return False
                self.ledger.remove_with_pods(candidate.key)
        return True

    def allowed_sets(self, *, borrowing: bool) -> Iterator[list[Candidate]]:
        """All sets of candidates, those that are evicted already always among them as far as they may go."""
        ordered = find(self.ledger, self.context()).in_order
        leaving: list[Candidate] = []
        for candidate in ordered:
            if candidate.workload.evicted and self.allowed_together([*leaving, candidate], borrowing=borrowing):
                leaving.append(candidate)
        rest = [candidate for candidate in ordered if not candidate.workload.evicted]
        for count in range(len(rest) + 1):
            for some in combinations(rest, count):
                chosen = [c for c in ordered if c in leaving or c in some]
                if self.allowed_together(chosen, borrowing=borrowing):
                    yield chosen


def _shown(allocation: Allocation) -> str:
    workload, got = allocation.workload, allocation.admission.pod_sets
    places = [(d.values[0], d.count) for one in got if one.assignment for d in one.assignment.domains]
    what = (allocation.admission.cluster_queue, workload.priority, workload.evicted, workload.reserved)
    return f"{workload.key} {what} {places} {allocation.admission.usage()}"


def _below(candidate: Candidate) -> Iterator[QuotaNode]:
    """The candidate's queue, and the cohorts between it and the lowest one that it shares with the preemptor."""
    yield candidate.node
    for node in candidate.node.ancestors():
        if node is candidate.top:
            return
        yield node


def _exceeds(node: QuotaNode, wanted: frozenset[tuple[str, str]]) -> bool:
    return any(node.usage.get(fr, 0) > node.subtree.get(fr, 0) for fr in wanted)


# ---- drawing

policies = st.builds(
    PreemptionPolicy,
    st.sampled_from(["Any", "LowerPriority", "Never"]),
    st.sampled_from(["LowerOrNewerEqualPriority", "LowerPriority", "Never"]),
    st.sampled_from(["Never", "LowerPriority"]),
    st.sampled_from([None, 1]),
)
topologies = st.sampled_from(
    [
        None,
        TopologyRequest(required=RACK),
        TopologyRequest(required=HOST),
        TopologyRequest(preferred=RACK),
        TopologyRequest(unconstrained=True),
        TopologyRequest(required=RACK, slices=(SliceLayer(HOST, 2),)),
        TopologyRequest(required=RACK, slices=(SliceLayer(RACK, 2), SliceLayer(HOST, 1))),
        TopologyRequest(slices=(SliceLayer(RACK, 2),), slice_topology_only=True),
        TopologyRequest(required=RACK, group="with a leader"),
        TopologyRequest(preferred=RACK, group="with a leader"),
    ]
)


@st.composite
def scenes(draw: st.DrawFn, profile: Profile = Profile.EXACT) -> DrawnCluster:
    """Three queues in one or two cohorts, three racks of two hosts, and up to seven workloads that run there."""
    topology = draw(topologies)
    ledger = Ledger(PlacementOptions(profile=profile))
    ledger.apply(racks() if topology is not None else Flavor("tas"))
    for index in range(6):
        ledger.apply(host(f"h{index}", f"r{index // 2}", draw(st.integers(2, 4))))
    for queue in _queues(draw):
        ledger.apply(queue)
    if draw(st.booleans()):
        ledger.apply(Cohort("low", parent="top", quotas={("tas", "cpu"): Quota(draw(st.integers(0, 3)) * CPU)}))
    running = tuple(one for index in range(draw(st.integers(3, 8))) if (one := _runs(draw, ledger, index, topology)))
    pods, cpus = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    wanted = [PodSet("main", pods, {"cpu": cpus * CPU}, topology=topology)]
    if topology is not None and topology.group is not None:
        wanted.append(PodSet("leader", 1, {"cpu": CPU}, topology=topology))
    elif topology is not None and draw(st.integers(0, 3)) == 0:
        wanted.append(PodSet("other", draw(st.integers(1, 2)), {"cpu": CPU}, topology=TopologyRequest(required=HOST)))
    head = Workload("ns/head", "head", "ns/lq", "a", tuple(wanted), priority=draw(st.integers(1, 4)), queued=100.0)
    scene = DrawnCluster(ledger, head, _assignment(wanted), running)
    assume(not scene.fits_without([]))
    assume(scene.fits_without([workload.key for workload in running]))
    return scene


def _assignment(pod_sets: Sequence[PodSet]) -> FlavorAssignment:
    """All in flavor `tas`, for all of which somebody has to leave."""
    found = [
        PodSetFlavors(
            one.name,
            {"cpu": Pick("tas", Mode.PREEMPT)},
            {"cpu": one.count * one.requests["cpu"]},
            topology=None if one.topology is None else "tas",
        )
        for one in pod_sets
    ]
    return FlavorAssignment(tuple(found), {("tas", "cpu"): sum(one.requests["cpu"] for one in found)})


def _queues(draw: st.DrawFn) -> Iterator[ClusterQueue]:
    limits = st.sampled_from([None, None, None, 2 * CPU]), st.sampled_from([None, None, None, CPU])
    for name in QUEUES:
        nominal = st.sampled_from([4, 8, 12] if name == "a" else [0, 1, 4]).map(lambda cpus: cpus * CPU)
        quotas = st.builds(Quota, nominal, *limits)
        cohort = draw(st.sampled_from(["top", "top", "low"]))
        policy = draw(policies) if name == "a" else PreemptionPolicy()
        yield ClusterQueue(name, (group({"tas": {"cpu": draw(quotas)}}),), cohort, preemption=policy)


def _runs(draw: st.DrawFn, ledger: Ledger, index: int, topology: TopologyRequest | None) -> Workload | None:
    """A workload on hosts that have room, with some of its pods bound; its queue may use more than it has."""
    key, cpus = f"ns/w{index}", draw(st.integers(1, 2))
    hosts = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    counts = {f"h{number}": hosts.count(number) for number in sorted(set(hosts))}
    pod_set = PodSet("main", len(hosts), {"cpu": cpus * CPU}, topology=topology and TopologyRequest(unconstrained=True))
    assignment = Assignment((HOST,), tuple(DomainCount((name,), count) for name, count in counts.items()))
    total = {"cpu": len(hosts) * cpus * CPU}
    got = PodSetAdmission("main", {"cpu": "tas"}, total, len(hosts), None if topology is None else assignment)
    queue = draw(st.sampled_from(("a", *QUEUES)))
    workload = Workload(
        key,
        draw(st.sampled_from(["x", "y"])) + key,
        "ns/lq",
        queue,
        (pod_set,),
        priority=draw(st.integers(0, 2)),
        queued=float(draw(st.sampled_from([50, 150]))),
        evicted=draw(st.integers(0, 5)) == 0,
        reserved=draw(st.sampled_from([None, 1000.0, 9000.0])),
    )
    admission = Admission(queue, (got,))
    if topology is not None and not ledger.placement.fits(workload, admission):
        return None
    ledger.apply(replace(workload, admission=admission))
    if topology is not None and draw(st.booleans()):
        for name in counts:
            ledger.apply(BoundPod(f"{key}-{name}", name, {"cpu": cpus * CPU + draw(st.sampled_from([0, 500]))}, key))
    return workload
