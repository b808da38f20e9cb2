"""Clusters, pods and ledgers for tests of pod affinity."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    Assignment,
    BoundPod,
    Node,
    PlacementOptions,
    PlacementRequest,
    PodFacts,
    PodSet,
    PodSetAdmission,
    PodTerm,
    Profile,
    TopologyRequest,
    Workload,
)
from api.pod.pod_terms import SelectorRequirement
from tests.admission.engine.topology.interpod import OnePod, Term
from tests.admission.engine.topology.vectors import BLOCK, FLAVOR, LEVELS, RACK, ledger

ZONE = "zone"
CPU = {"cpu": 1000}


def selector(app: str | None) -> tuple[SelectorRequirement, ...]:
    return () if app is None else (SelectorRequirement("app", "In", (app,)),)


def facts(pod: OnePod) -> PodFacts:
    apart = [PodTerm(t.key, selector(t.app), t.namespaces or (pod.namespace,)) for t in pod.apart]
    wanted = tuple({one for t in pod.near for one in selector(t.app)})
    near = {t.key: PodTerm(t.key, wanted, pod.near[0].namespaces or (pod.namespace,)) for t in pod.near}
    return PodFacts(pod.namespace, (("app", pod.app),), tuple(apart), tuple(near.values()))


def bound(name: str, pod: OnePod) -> BoundPod:
    return BoundPod(f"{pod.namespace}/{name}", pod.node, {}, facts=facts(pod))


def node(name: str, labels: dict[str, str], cpu: int = 2) -> Node:
    return Node(name, {HOSTNAME_LABEL: name, **labels}, {"cpu": 1000 * cpu, "pods": 20})


def request(pod: OnePod, count: int, topology: TopologyRequest, name: str = "main") -> PlacementRequest:
    return PlacementRequest(
        PodSet(name, count, CPU, topology=topology, facts=facts(pod)), FLAVOR, count, facts=facts(pod)
    )


def book(nodes: list[Node], profile: Profile = Profile.EXACT) -> Ledger:
    return ledger(PlacementOptions(profile=profile), nodes)


def spots(assignment: Assignment) -> list[str]:
    return [domain.values[-1] for domain in assignment.domains for _ in range(domain.count)]


def workload(key: str, requested: PlacementRequest, assignment: Assignment) -> Workload:
    got = PodSetAdmission(
        requested.pod_set.name, {"cpu": FLAVOR}, {"cpu": 1000 * requested.count}, requested.count, assignment
    )
    return Workload(key, key, "ns/lq", "cq", (requested.pod_set,), admission=Admission("cq", (got,)))


def rows(number: int) -> list[Node]:
    """Two racks of a block; zones are blocks."""
    return [node(f"n{i}", {BLOCK: f"b{i // 4}", RACK: f"r{i // 2}", ZONE: f"z{i // 4}"}) for i in range(number)]


KEYS = (HOSTNAME_LABEL, RACK, BLOCK, ZONE, "missing")
TERMS = st.builds(
    Term, st.sampled_from(KEYS), st.sampled_from(["a", "b", None]), st.sampled_from([None, ("ns",), ("other", "ns")])
)


def in_one_namespace(terms: list[Term]) -> tuple[Term, ...]:
    """Affinity terms that look into different namespaces are not counted."""
    return tuple(replace(term, namespaces=terms[0].namespaces) for term in terms)


PODS = st.builds(
    OnePod,
    st.sampled_from(["a", "b"]),
    st.lists(TERMS, max_size=2).map(tuple),
    st.one_of(st.just(()), st.lists(TERMS, max_size=2).map(in_one_namespace)),
    st.sampled_from(["ns", "other"]),
)
ASKS = st.one_of(
    st.just(TopologyRequest(unconstrained=True)),
    st.sampled_from(LEVELS).map(lambda level: TopologyRequest(required=level)),
    st.sampled_from(LEVELS).map(lambda level: TopologyRequest(preferred=level)),
)
