"""Which nodes reach the volume of a claim, and when a claim cannot be bound: kube-scheduler's rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.controllers.watch.volumes.binding import of_each_pod, of_named
from admission.controllers.watch.volumes.pod_claims import ClaimUse
from admission.controllers.watch.volumes.reach import BoundTo, CannotBind, Selector
from admission.engine.model import Node
from admission.engine.topology.tree.match import Matcher, Wants
from api.pod.volumes import Claim, ClaimSpec, StorageClass, Volume

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NODES = {f"n{n}": {HOST: f"n{n}", **({ZONE: "abc"[n // 2]} if n < 6 else {})} for n in range(8)}
DONE = {"pv.kubernetes.io/bind-completed": "yes"}


class World:
    """Objects by name."""

    def __init__(self, claims: Any = (), volumes: Any = (), classes: Any = ()) -> None:
        self.claims = {f"ns/{c['metadata']['name']}": msgspec.convert(c, Claim) for c in claims}
        self.volumes = {v["metadata"]["name"]: msgspec.convert(v, Volume) for v in volumes}
        self.classes = {c["metadata"]["name"]: msgspec.convert(c, StorageClass) for c in classes}

    def claim(self, key: str) -> Claim | None:
        return self.claims.get(key)

    def volume(self, name: str) -> Volume | None:
        return self.volumes.get(name)

    def storage_class(self, name: str | None) -> StorageClass | None:
        return self.classes.get(name or "standard")

    def capacity_nodes(self, of_class: StorageClass, spec: ClaimSpec) -> Selector | None:
        return None

    def topology_keys(self, driver: str) -> tuple[str, ...]:
        return (ZONE,) if driver == "zonal.example.com" else ()

    def volumes_of_class(self, name: str) -> list[Volume]:
        return [v for v in self.volumes.values() if v.spec.storage_class_name == name and v.status.phase == "Available"]


def claim(name: str = "data", volume: str = "", *, bound: bool = True, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ns", "annotations": DONE if volume and bound else {}},
        "spec": {"volumeName": volume, "accessModes": ["ReadWriteOnce"], "storageClassName": "local", **spec},
    }


def volume(
    name: str, *affinity: dict[str, Any], labels: Any = (), phase: str = "Available", **spec: Any
) -> dict[str, Any]:
    terms = [{"matchExpressions": [each]} for each in affinity]
    where = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}
    base = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}}
    return {
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {**base, **where, **spec},
        "status": {"phase": phase},
    }


def among(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def storage_class(name: str, *zones: str, waits: bool = True, provisioner: str = "csi.example.com") -> dict[str, Any]:
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]} for zone in zones]
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return {
        "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, "allowedTopologies": topologies,
    }  # fmt: skip


LOCAL = storage_class("local", provisioner="kubernetes.io/no-provisioner")


def nodes_of(bound_to: BoundTo, nodes: Mapping[str, Mapping[str, str]] = NODES) -> set[str]:
    """The names of the nodes that the placement would take."""
    matcher = Matcher()
    for row, (name, labels) in enumerate(nodes.items()):
        matcher.set(row, Node(name, labels, {}))
    mask = matcher.feasible(Wants(volumes=bound_to.selectors), len(nodes))
    return {name for row, name in enumerate(nodes) if mask is None or mask[row]}


@pytest.mark.parametrize(
    ("claims", "volumes", "classes", "pods", "nodes"),
    [
        pytest.param([claim(volume="v")], [volume("v", among(HOST, "n3"))], [], 1, "n3", id="bound-to-a-local-volume"),
        pytest.param([claim(volume="v")], [volume("v")], [], 1, "n0 n1 n2 n3 n4 n5 n6 n7", id="bound-anywhere"),
        pytest.param(
            [claim(volume="v")], [volume("v", labels={ZONE: "a__c"})], [], 1, "n0 n1 n4 n5 n6 n7",
            id="zone-labels-and-nodes-without-zones",
        ),
        pytest.param(
            [claim(volume="v")], [volume("v", labels={"failure-domain.beta.kubernetes.io/zone": "b"})], [], 1,
            "n2 n3 n6 n7", id="old-zone-label",
        ),
        pytest.param(
            [claim(volume="v")], [volume("v", among(HOST, "n0", "n2"), labels={ZONE: "b"})], [], 1, "n2",
            id="affinity-and-zone",
        ),
        pytest.param(
            [claim(storageClassName="fast")], [], [storage_class("fast", "a", "b")], 1, "n0 n1 n2 n3",
            id="allowed-topologies",
        ),
        pytest.param([claim(storageClassName="fast")], [], [storage_class("fast")], 4, "n0 n1 n2 n3 n4 n5 n6 n7", id="made"),
        pytest.param(
            [claim()], [volume("v", among(HOST, "n1")), volume("w", among(HOST, "n5"))], [LOCAL], 1, "n1 n5",
            id="local-volumes",
        ),
        pytest.param(
            [claim()],
            [volume("v", among(HOST, "n1")), volume("w", among(HOST, "n5"), capacity={"storage": "1Gi"})],
            [LOCAL], 2, "n1 n5", id="shared",
        ),
        pytest.param(
            [claim(resources={"requests": {"storage": "5Gi"}})],
            [volume("v", among(HOST, "n1")), volume("w", among(HOST, "n5"), capacity={"storage": "1Gi"})],
            [LOCAL], 1, "n1", id="too-small",
        ),
        pytest.param(
            [claim()], [volume("v", among(HOST, "n1")), volume("w", among(HOST, "n5"), accessModes=["ReadOnlyMany"])],
            [LOCAL], 1, "n1", id="other-access-mode",
        ),
        pytest.param(
            [claim(selector={"matchLabels": {"disk": "nvme"}})],
            [volume("v", among(HOST, "n1")), volume("w", among(HOST, "n5"), labels={"disk": "nvme"})],
            [LOCAL], 1, "n5", id="selector",
        ),
        pytest.param(
            [claim()],
            [
                volume("v", among(HOST, "n1"), claimRef={"namespace": "ns", "name": "other"}),
                volume("w", among(HOST, "n5"), claimRef={"namespace": "ns", "name": "data"}),
            ],
            [LOCAL], 1, "n5", id="kept-for-the-claim",
        ),
        pytest.param(
            [claim(storageClassName="fast")], [volume("v", among(HOST, "n7"), storageClassName="fast")],
            [storage_class("fast", "a")], 1, "n0 n1 n7", id="a-volume-that-is-there-or-one-made",
        ),
    ],
)  # fmt: skip
def test_a_claim_allows_the_nodes_that_reach_its_volume(
    claims: list[Any], volumes: list[Any], classes: list[Any], pods: int, nodes: str
) -> None:
    assert " ".join(sorted(nodes_of(of_named("ns/data", pods, World(claims, volumes, classes))))) == nodes


ZONAL = storage_class("zonal", "a", "b", provisioner="zonal.example.com")
ZONE_VOLUMES = [volume("v", among(ZONE, "a")), volume("w", among(ZONE, "c"))]
MIXED = [volume("v", among(HOST, "n0", "n1")), volume("w", among(HOST, "n1", "n2"))]


@pytest.mark.parametrize(
    ("spec", "volumes", "classes", "pod_sets", "nodes", "gathered"),
    [
        pytest.param({}, ZONE_VOLUMES, [LOCAL], 1, "n0 n1 n4 n5", (ZONE,), id="volumes-of-zones"),
        pytest.param({}, ZONE_VOLUMES, [LOCAL], 2, "n0 n1", (), id="of-two-pod-sets-that-of-the-first"),
        pytest.param({}, [volume("v", among(HOST, "n0", "n3"))], [LOCAL], 2, "n0 n3", (), id="one-volume"),
        pytest.param({}, [MIXED[0], MIXED[0] | {"metadata": {"name": "x"}}], [LOCAL], 1, "n0 n1", (), id="alike"),
        pytest.param({"storageClassName": "zonal"}, [], [ZONAL], 1, "n0 n1 n2 n3", (ZONE,), id="provisioned-in-a-zone"),
        pytest.param(
            {"storageClassName": "fast"}, [], [storage_class("fast", "a", "c")], 1, "n0 n1 n4 n5", (ZONE,),
            id="provisioned-where-the-class-allows",
        ),
    ],
)  # fmt: skip
def test_pods_that_share_an_unbound_claim_go_to_one_domain_of_its_volume(
    spec: Any, volumes: list[Any], classes: list[Any], pod_sets: int, nodes: str, gathered: tuple[str, ...]
) -> None:
    found = of_named("ns/data", 3, World([claim(**spec)], volumes, classes), pod_sets=pod_sets)
    assert (" ".join(sorted(nodes_of(found))), found.gathered) == (nodes, gathered)


@pytest.mark.parametrize(
    ("spec", "volumes", "pod_sets", "says"),
    [
        pytest.param({}, MIXED, 1, "do not name their nodes by one label alike", id="volumes-overlap"),
        pytest.param({}, [*ZONE_VOLUMES, volume("x")], 1, "do not name their nodes", id="one-everywhere"),
        pytest.param({"storageClassName": "zonal"}, [], 2, "several pod sets share it", id="two-pod-sets"),
    ],
)
def test_a_shared_claim_whose_volume_is_not_counted_says_so(
    spec: Any, volumes: list[Any], pod_sets: int, says: str
) -> None:
    with pytest.raises(CannotBind) as why:
        of_named("ns/data", 3, World([claim(**spec)], volumes, [LOCAL, ZONAL]), pod_sets=pod_sets)
    assert says in why.value.message
    assert why.value.reason == "UnsupportedPodTerms"


def test_a_claim_whose_node_is_chosen_goes_there() -> None:
    chosen = claim(storageClassName="fast")
    chosen["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n4"}
    assert nodes_of(of_named("ns/data", 1, World([chosen], [], [storage_class("fast", "c")]))) == {"n4"}


GOING = claim(volume="v")
GOING["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("claims", "volumes", "classes", "says"),
    [
        pytest.param([], [], [], "waits for PersistentVolumeClaim data to be created", id="missing"),
        pytest.param([GOING], [volume("v")], [], "PersistentVolumeClaim data is being deleted", id="going"),
        pytest.param([claim(volume="v") | {"status": {"phase": "Lost"}}], [], [], "has lost its volume", id="lost"),
        pytest.param([claim(volume="v")], [], [], "waits for PersistentVolume v", id="no-volume"),
        pytest.param([claim(volume="v", bound=False)], [volume("v")], [LOCAL], "data to be bound", id="half-bound"),
        pytest.param([claim()], [volume("v")], [], "data to be bound", id="no-class"),
        pytest.param([claim(storageClassName="")], [volume("v")], [], "data to be bound", id="without-class"),
        pytest.param(
            [claim(storageClassName="fast")], [], [storage_class("fast", waits=False)], "data to be bound", id="immediate"
        ),
        pytest.param(
            [claim()], [volume("v", phase="Bound")], [LOCAL],
            "PersistentVolumeClaim data: waits for a PersistentVolume of StorageClass local that matches", id="none-free",
        ),
    ],
)  # fmt: skip
def test_a_claim_that_cannot_be_bound_says_why(
    claims: list[Any], volumes: list[Any], classes: list[Any], says: str
) -> None:
    with pytest.raises(CannotBind) as why:
        of_named("ns/data", 1, World(claims, volumes, classes))
    assert says in why.value.message
    assert why.value.reason == "WaitingForObjects"


@pytest.mark.parametrize(
    ("name", "classes", "result"),
    [
        pytest.param("fast", [storage_class("fast", "b")], "n2 n3", id="allowed-topologies"),
        pytest.param(None, [storage_class("standard", "c")], "n4 n5", id="default-class"),
        pytest.param("fast", [storage_class("fast", "a", waits=False)], "n0 n1", id="immediate"),
        pytest.param("fast", [], "waits for StorageClass fast to be created", id="missing"),
        pytest.param(None, [], "the cluster has no default one", id="no-default"),
        pytest.param("local", [LOCAL], "n1 n2", id="local-volumes"),
        pytest.param("slow", [storage_class("slow", provisioner="")], "that match, 0 are there", id="too-few-volumes"),
    ],
)
def test_claims_of_each_pod(name: str | None, classes: list[Any], result: str) -> None:
    there = [volume("v", among(HOST, "n1")), volume("w", among(HOST, "n2"))]
    spec = ClaimSpec(storage_class_name=name)
    try:
        bound = of_each_pod(ClaimUse("main", "scratch", 2, spec=spec), spec, World([], there, classes), claims=2)
        found = " ".join(sorted(nodes_of(bound)))
    except CannotBind as why:
        found = why.message
    assert result in found


@pytest.mark.parametrize(
    ("volumes", "claims", "result"),
    [
        pytest.param(MIXED, 2, "n1", id="one-node-reached-by-both"),
        pytest.param([*MIXED, volume("x")], 2, "n0 n1 n2", id="and-one-that-every-node-reaches"),
        pytest.param([*MIXED, volume("x")], 3, "n1", id="one-node-reached-by-all"),
        pytest.param([*ZONE_VOLUMES, volume("x", among(ZONE, "c"))], 2, "n4 n5", id="two-in-one-zone"),
        pytest.param(ZONE_VOLUMES, 2, "UnsupportedPodTerms: volume scratch: PersistentVolumes", id="one-in-each-zone"),
        pytest.param([MIXED[0], ZONE_VOLUMES[1]], 2, "no node is reached by 2", id="by-different-labels"),
        pytest.param(MIXED, 3, "WaitingForObjects: volume scratch: waits for 3", id="too-few"),
    ],
)
def test_claims_of_each_pod_whose_volumes_reach_several_nodes(volumes: list[Any], claims: int, result: str) -> None:
    """Pods go where enough volumes are left whichever the scheduler gives to the others."""
    spec = ClaimSpec(storage_class_name="local")
    use = ClaimUse("main", "scratch", 1, spec=spec)
    try:
        found = " ".join(sorted(nodes_of(of_each_pod(use, spec, World([], volumes, [LOCAL]), claims=claims))))
    except CannotBind as why:
        found = f"{why.reason}: {why.message}"
    assert result in found


@pytest.mark.parametrize("classes", [[LOCAL], []], ids=["local", "no-class"])
def test_claims_that_outlive_their_pods_may_be_bound_already(classes: list[Any]) -> None:
    spec = ClaimSpec(storage_class_name="local")
    assert (
        of_each_pod(ClaimUse("main", "data", 3, spec=spec, lasting=True), spec, World([], [], classes), claims=3)
        == BoundTo()
    )


# ---- against the rules, node by node

PLACES = st.lists(
    st.sampled_from([among(HOST, "n0"), among(HOST, "n3", "n6"), among(ZONE, "a", "b"), among(ZONE, "c")]), max_size=2
)
SIZES = st.sampled_from(["1Gi", "5Gi", "10Gi"])


def reaches(node: Mapping[str, str], terms: list[dict[str, Any]]) -> bool:
    return not terms or any(node.get(term["key"]) in term["values"] for term in terms)


@given(
    st.lists(st.tuples(PLACES, SIZES, st.booleans()), max_size=5),
    SIZES,
    st.booleans(),
    st.lists(st.sampled_from("abc"), max_size=2),
)
def test_an_unbound_claim_of_one_pod_allows_what_the_scheduler_allows(
    volumes: list[Any], size: str, provisions: bool, zones: list[str]
) -> None:
    """A node is allowed if a volume that fits reaches it, or one can be made there."""
    made = [
        volume(f"v{n}", *places, capacity={"storage": has}, phase="Available" if free else "Bound")
        for n, (places, has, free) in enumerate(volumes)
    ]
    kind = storage_class("local", *zones, provisioner="csi" if provisions else "kubernetes.io/no-provisioner")
    world = World([claim(resources={"requests": {"storage": size}})], made, [kind])
    order = ["1Gi", "5Gi", "10Gi"]
    wanted = {
        name
        for name, node in NODES.items()
        if (provisions and (not zones or node.get(ZONE) in zones))
        or any(
            free and order.index(has) >= order.index(size) and reaches(node, places) for places, has, free in volumes
        )
    }
    try:
        found = nodes_of(of_named("ns/data", 1, world))
    except CannotBind:
        found = set()
    assert found == wanted


@given(st.lists(st.tuples(PLACES, SIZES), min_size=1, max_size=4), st.integers(1, 2), st.booleans())
def test_whichever_volume_the_first_pod_gets_the_others_reach_it(
    volumes: list[Any], pod_sets: int, provisions: bool
) -> None:
    """Pods share a claim and are in one domain of the topology keys: all reach each volume that one of them may get."""
    made = [volume(f"v{n}", *places, capacity={"storage": size}) for n, (places, size) in enumerate(volumes)]
    kind = storage_class("local", provisioner="zonal.example.com" if provisions else "kubernetes.io/no-provisioner")
    try:
        found = of_named("ns/data", 3, World([claim(resources={"requests": {"storage": "1Gi"}})], made, [kind]),
                         pod_sets=pod_sets)  # fmt: skip
    except CannotBind:
        return
    domains: dict[tuple[str | None, ...], set[str]] = {}
    for name in nodes_of(found):
        domains.setdefault(tuple(NODES[name].get(key) for key in found.gathered), set()).add(name)
    for names in domains.values():
        for places, _ in volumes:
            assert len({reaches(NODES[name], places) for name in names}) == 1
