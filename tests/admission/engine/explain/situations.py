"""Made situations: a small cluster in which the workload `ns/w` waits, each for another reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from admission.engine.features.advance_reservations.reservation import AdvanceReservation
from admission.engine.model import (
    BoundPod,
    Event,
    Flavor,
    LevelConstraint,
    Node,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSet,
    Quota,
    SliceLayer,
    Spreading,
    Taint,
    TopologyRequest,
    Workload,
)
from tests.admission.engine.builders import CPU, HOST, RACK, Cluster, group, host, queue, racks, workload

BLOCK = "block"
IN_A_RACK = TopologyRequest(required=RACK)
W = "ns/w"
MAINTENANCE = Taint(key="maintenance", effect="NoSchedule", value="soon")


def blocks(flavor: str = "tas") -> Flavor:
    """A flavor of blocks of racks of hosts."""
    return Flavor(flavor, {"pool": flavor}, topology="default", levels=(BLOCK, RACK, HOST))


def tree(cpus: int = 4, *, block: int = 1, rack: int = 2, hosts: int = 2) -> list[Node]:
    """Hosts of `cpus` in `block` blocks of `rack` racks of `hosts`."""
    return [_host(f"b{b}", f"r{b}{r}", h, cpus) for b in range(block) for r in range(rack) for h in range(hosts)]


def _host(block: str, rack: str, number: int, cpus: int) -> Node:
    node = host(f"{rack}-{number}", rack, cpus)
    return replace(node, labels={**node.labels, BLOCK: block})


def waiting(*events: Event, pods: int = 4, cpus: int = 1, topology: TopologyRequest | None = IN_A_RACK) -> Cluster:
    """A cluster of these events with all admitted that can be, and then with the workload that waits."""
    return beside(workload(W, pods, cpus, topology=topology, queued=9), *events)


def beside(original: Workload, *events: Event) -> Cluster:
    """The same with any workload."""
    cluster = Cluster(*events)
    cluster.cycle()
    cluster.tell(original)
    return cluster


def full_racks() -> Cluster:
    """Two racks, each with a workload that leaves too little; two small ones stand in the second."""
    others = [workload("ns/a", 6, topology=IN_A_RACK, queued=1)]
    others += [workload(f"ns/s{i}", 3, topology=IN_A_RACK, queued=2 + i) for i in range(2)]
    return waiting(blocks(), *tree(), queue(tas=100), *others, pods=5)


def rack_too_small() -> Cluster:
    """More pods than a rack ever holds, room enough in the block."""
    return waiting(blocks(), *tree(block=2), queue(tas=100), pods=9)


def borrowed_away() -> Cluster:
    """A relative borrows the quota."""
    queues = (queue("q", cohort="all", tas=8), queue("other", cohort="all", tas=4))
    used = (workload("ns/b1", 5, to="other", queued=1), workload("ns/b2", 3, to="other", queued=2))
    return waiting(blocks(), *tree(8), *queues, *used, pods=7)


def beyond_all_quota() -> Cluster:
    """More than the queue may ever use."""
    return waiting(blocks(), *tree(8), queue(tas=6), pods=7)


def foreign() -> Cluster:
    """Pods that belong to nobody fill the racks, and daemons stand on every node."""
    nodes = tree()
    pods = [BoundPod(f"kube-system/d-{node.name}", node.name, {"cpu": CPU // 2}) for node in nodes]
    pods += [BoundPod(f"ns/loose-{i}", nodes[i].name, {"cpu": 2 * CPU}) for i in (0, 1, 2)]
    return waiting(blocks(), *nodes, *pods, queue(tas=100), pods=6)


def tainted() -> Cluster:
    """One rack is to be serviced, the other is too small."""
    nodes = [replace(node, taints=(MAINTENANCE,)) for node in tree(4, rack=1)] + [_host("b0", "r9", 0, 4)]
    return waiting(blocks(), *nodes, queue(tas=100), pods=7)


def reserved() -> Cluster:
    """One rack is reserved for a later time, the other is too small."""
    reservation = AdvanceReservation("firmware", {RACK: "r00"}, 100.0, 200.0)
    nodes = [*tree(4, rack=1), _host("b0", "r9", 0, 4)]
    return waiting(blocks(), reservation, *nodes, queue(tas=100), pods=7)


def selected() -> Cluster:
    """The selector leaves one host of each rack; affinity would be met by all."""
    nodes = [replace(n, labels={**n.labels, "disk": "ssd" if n.name.endswith("0") else "hdd"}) for n in tree()]
    pod_set = PodSet(
        "main",
        5,
        {"cpu": CPU},
        topology=IN_A_RACK,
        node_selector={"disk": "ssd"},
        affinity=(NodeSelectorTerm(match_expressions=(NodeSelectorRequirement("disk", "In", ("ssd", "hdd")),)),),
    )
    return beside(Workload(W, "uid", "ns/q", "q", (pod_set,)), blocks(), *nodes, queue(tas=100))


def a_little_memory() -> Cluster:
    """Memory is what is short, by a little for each pod."""
    gib = 1 << 30
    nodes = [replace(n, allocatable={**n.allocatable, "memory": 15 * gib}) for n in tree(8)]
    pod_set = PodSet("main", 8, {"cpu": CPU, "memory": 4 * gib}, topology=IN_A_RACK)
    quota = group({"tas": {"cpu": 100 * CPU, "memory": 1000 * gib}})
    made = Workload(W, "uid", "ns/q", "q", (pod_set,))
    return beside(made, blocks(), *nodes, replace(queue(), groups=(quota,)))


def quota_and_capacity() -> Cluster:
    """Quota is used up and the racks are full, by the same and by others."""
    used = (workload("ns/a", 7, topology=IN_A_RACK, queued=1), workload("ns/b", 5, topology=IN_A_RACK, queued=2))
    return waiting(blocks(), *tree(), queue(tas=14), *used, pods=4)


def torn_slices() -> Cluster:
    """Four pods of a slice belong on one host; enough is free, but torn."""
    used = [workload(f"ns/u{i}", 3 + i, topology=TopologyRequest(required=HOST), queued=i) for i in range(2)]
    topology = TopologyRequest(required=BLOCK, slices=(SliceLayer(HOST, 4),))
    return waiting(blocks(), *tree(6, rack=1), queue(tas=100), *used, pods=4, topology=topology)


def torn_pods() -> Cluster:
    """Pods of two CPUs; six are free in each rack, three on each of its hosts."""
    used = [workload(f"ns/u{i}", 1, 4, topology=TopologyRequest(required=HOST), queued=i) for i in range(4)]
    return waiting(blocks(), *tree(7), queue(tas=100), *used, pods=3, cpus=2)


def two_pod_sets() -> Cluster:
    """Both pod sets want a rack; one finds none."""
    used = workload("ns/a", 3, topology=IN_A_RACK, queued=1)
    large, small = (PodSet(f"of-{pods}", pods, {"cpu": CPU}, topology=IN_A_RACK) for pods in (8, 6))
    return beside(Workload(W, "uid", "ns/q", "q", (large, small)), blocks(), *tree(), queue(tas=100), used)


def second_flavor() -> Cluster:
    """The first flavor has room and no quota, the second quota and no room."""
    nodes = [host("n1", "r1", 8, "near"), host("f1", "r1", 4, "far")]
    quotas = queue(near=Quota(2 * CPU), far=10)
    return waiting(racks("near", topology="near"), racks("far", topology="far"), *nodes, quotas, pods=5)


def partial(original: Workload, least: int) -> Workload:
    """The workload as it may start with fewer pods (job-min-parallelism)."""
    return replace(original, pod_sets=tuple(replace(pod_set, min_count=least) for pod_set in original.pod_sets))


def partial_capacity() -> Cluster:
    """It can start with five of eight pods, and each rack has room for two."""
    others = [workload(f"ns/{name}", 3, topology=IN_A_RACK, queued=at) for at, name in enumerate("abcd")]
    made = partial(workload(W, 8, topology=IN_A_RACK, queued=9), 5)
    return beside(made, blocks(), *tree(), queue(tas=100), *others)


def partial_quota() -> Cluster:
    """It can start with four of eight pods, and three have quota; nodes have room for all."""
    used = [workload(f"ns/{name}", pods, queued=at) for at, (name, pods) in enumerate((("a", 1), ("b", 2), ("c", 4)))]
    loose = TopologyRequest(unconstrained=True)
    return beside(partial(workload(W, 8, topology=loose, queued=9), 4), blocks(), *tree(8), queue(tas=10), *used)


def partial_two_flavors() -> Cluster:
    """It can start with three of six pods; one flavor has room for two and no quota, the other quota for two."""
    nodes = [host("n1", "r1", 2, "near"), host("f1", "r1", 6, "far")]
    made = partial(workload(W, 6, queued=9), 3)
    return beside(made, racks("near"), racks("far"), *nodes, queue(near=Quota(CPU), far=2))


def no_nodes() -> Cluster:
    """The flavor has not a single node."""
    return waiting(blocks(), queue(tas=100))


def no_such_level() -> Cluster:
    """The flavor has no rows."""
    return waiting(blocks(), *tree(), queue(tas=100), topology=TopologyRequest(required="row"))


def constrained() -> Cluster:
    """The pods are to be spread over three racks by all means, and there are two."""
    spread = LevelConstraint(RACK, Spreading.SPREAD, partitions=3, hard=True)
    return waiting(
        blocks(), *tree(), queue(tas=100), pods=6, topology=TopologyRequest(required=BLOCK, constraints=(spread,))
    )


def no_such_slice_level() -> Cluster:
    """Slices of a level that is not there."""
    return waiting(
        blocks(), *tree(), queue(tas=100), topology=TopologyRequest(required=BLOCK, slices=(SliceLayer("row", 2),))
    )


def requests_nothing() -> Cluster:
    """Pods without requests get no flavor, and so no place."""
    return beside(Workload(W, "uid", "ns/q", "q", (PodSet("main", 2, {}),)), blocks(), *tree(), queue(tas=100))


def uncovered() -> Cluster:
    """Nodes have GPUs, the queue no quota for them."""
    nodes = [replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": 4}) for node in tree()]
    pod_set = PodSet("main", 4, {"cpu": CPU, "nvidia.com/gpu": 2}, topology=IN_A_RACK)
    return beside(Workload(W, "uid", "ns/q", "q", (pod_set,)), blocks(), *nodes, queue(tas=100))


def uncovered_and_no_quota() -> Cluster:
    """The same, and the CPUs are used up."""
    nodes = [replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": 4}) for node in tree(8)]
    pod_set = PodSet("main", 4, {"cpu": CPU, "nvidia.com/gpu": 2}, topology=IN_A_RACK)
    made = Workload(W, "uid", "ns/q", "q", (pod_set,), queued=9)
    return beside(made, blocks(), *nodes, queue(tas=10), workload("ns/a", 5, topology=IN_A_RACK), workload("ns/b", 3))


def uncovered_elsewhere() -> Cluster:
    """A flavor that the queue does not have could give it as well."""
    licence = Flavor("licences")
    pod_set = PodSet("main", 2, {"cpu": CPU, "example.com/licence": 1})
    made = Workload(W, "uid", "ns/q", "q", (pod_set,))
    return beside(made, Flavor("any"), licence, queue(any=100))


def tainted_and_selected() -> Cluster:
    """The only rack that is large enough is to be serviced, and has other disks."""
    nodes = [
        replace(node, taints=(MAINTENANCE,), labels={**node.labels, "disk": "hdd"}) if "r00" in node.name else node
        for node in tree(4, rack=1)
    ]
    nodes += [replace(one, labels={**one.labels, "disk": "ssd"}) for one in (_host("b0", "r9", 0, 4),)]
    pod_set = PodSet("main", 7, {"cpu": CPU}, topology=IN_A_RACK, node_selector={"disk": "ssd"})
    return beside(Workload(W, "uid", "ns/q", "q", (pod_set,)), blocks(), *nodes, queue(tas=100))


def two_taints() -> Cluster:
    """Each node of the only large rack has two taints."""
    other = Taint(key="gpu", effect="NoSchedule")
    nodes = [replace(node, taints=(MAINTENANCE, other)) for node in tree(4, rack=1)] + [_host("b0", "r9", 0, 4)]
    return waiting(blocks(), *nodes, queue(tas=100), pods=7)


SITUATIONS: tuple[Callable[[], Cluster], ...] = (
    full_racks,
    rack_too_small,
    borrowed_away,
    beyond_all_quota,
    foreign,
    tainted,
    reserved,
    selected,
    a_little_memory,
    quota_and_capacity,
    torn_slices,
    torn_pods,
    two_pod_sets,
    second_flavor,
    partial_capacity,
    partial_quota,
    partial_two_flavors,
    no_nodes,
    no_such_level,
    no_such_slice_level,
    uncovered,
    uncovered_and_no_quota,
    tainted_and_selected,
    two_taints,
    constrained,
)
