"""The counts of pods by the terms of affinity: they follow every event, and are made in steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Assignment,
    DomainCount,
    ObjectRemoved,
    PlacementOptions,
    PodFacts,
    PodTerm,
    RemovedKind,
    TopologyRequest,
    Workload,
)
from admission.engine.topology.neighbours import audit, counts
from admission.engine.topology.neighbours.tally import TermTable
from api.pod.pod_terms import SelectorRequirement
from tests.admission.engine.topology.interpod import OnePod, Term, binds
from tests.admission.engine.topology.neighbour_clusters import (
    ASKS,
    CPU,
    PODS,
    ZONE,
    book,
    bound,
    node,
    request,
    rows,
    spots,
    workload,
)
from tests.admission.engine.topology.vectors import BLOCK, RACK, ledger, shown
from tests.budgets import examples

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), PODS, st.integers(1, 2), ASKS),
        st.tuples(st.just("bind"), st.integers(0, 5)),
        st.tuples(st.just("release"), st.integers(0, 5)),
        st.tuples(st.just("pod"), st.integers(0, 3), PODS, st.integers(0, 5)),
        st.tuples(st.just("no pod"), st.integers(0, 3)),
        st.tuples(st.just("node"), st.integers(0, 5), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("no node"), st.integers(0, 5)),
        st.tuples(st.just("trial"), st.integers(0, 5)),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def one_at_a_time() -> Iterator[None]:
    """One node, pod or place in each step of a count and of an audit: as much as can be happens between two."""
    with pytest.MonkeyPatch.context() as patch:
        for where, name in ((counts, "_STEP"), (audit, "_STEPS"), (audit, "_PART")):
            patch.setattr(where, name, 1)
        yield


@pytest.mark.usefixtures("one_at_a_time")
@settings(max_examples=examples(50))
@given(STEPS)
def test_the_counts_follow_whatever_happens(steps: list[tuple[object, ...]]) -> None:
    """Every admission binds beside all that is there at that moment; the counts are those of a fresh start; and an audit in
    parts, between which all this happens, finds no difference.
    """
    made = ledger(PlacementOptions(), rows(6))
    parts: Iterator[list[str]] = iter(())
    nodes = {one.name: dict(one.labels) for one in rows(6)}
    foreign: dict[str, OnePod] = {}
    admitted: dict[str, tuple[list[OnePod], Workload]] = {}
    bound_of: dict[str, int] = {}
    for index, step in enumerate(steps):
        match step:
            case "admit", OnePod() as pod, int(count), TopologyRequest() as topology:
                pod, key = replace(pod, namespace="ns"), f"ns/w{index}"
                requested = request(pod, count, topology)
                result = made.placement.place([requested])
                if result.fits:
                    gang = [replace(pod, node=n) for n in spots(result.assignments["main"])]
                    there = [*foreign.values(), *(one for some, _ in admitted.values() for one in some)]
                    assert binds(gang, there, nodes)
                    taken = workload(key, requested, result.assignments["main"])
                    made.charge(taken, taken.admission)  # type: ignore[arg-type]
                    admitted[key], bound_of[key] = (gang, taken), 0
            case "bind", int(which):
                for key in sorted(admitted)[which : which + 1]:
                    gang, _ = admitted[key]
                    if bound_of[key] < len(gang):
                        pod = gang[bound_of[key]]
                        made.apply(
                            replace(
                                bound(f"{key[3:]}-{bound_of[key]}", pod), workload=key, pod_set="main", requests=CPU
                            )
                        )
                        bound_of[key] += 1
            case "release", int(which):
                for key in sorted(admitted)[which : which + 1]:
                    for i in range(bound_of[key]):
                        made.apply(ObjectRemoved(RemovedKind.POD, f"{key}-{i}"))
                    made.release(key)
                    del admitted[key]
            case "pod", int(which), OnePod() as pod, int(on):
                foreign[f"f{which}"] = pod = replace(pod, node=f"n{on}", namespace="ns")
                made.apply(bound(f"f{which}", pod))
            case "no pod", int(which):
                foreign.pop(f"f{which}", None)
                made.apply(ObjectRemoved(RemovedKind.POD, f"ns/f{which}"))
            case "node", int(which), int(rack), bool(usable):
                labels = {HOSTNAME_LABEL: f"n{which}", BLOCK: f"b{rack // 2}", RACK: f"r{rack}", ZONE: f"z{rack // 2}"}
                if not any(one.node == f"n{which}" for some, _ in admitted.values() for one in some):
                    nodes[f"n{which}"] = labels
                    made.apply(replace(node(f"n{which}", labels), usable=usable))
            case "no node", int(which):
                if not any(one.node == f"n{which}" for some, _ in admitted.values() for one in some):
                    nodes.pop(f"n{which}", None)
                    made.apply(ObjectRemoved(RemovedKind.NODE, f"n{which}"))
            case "trial", int(which):
                with made.trial():
                    for key in sorted(admitted)[which : which + 2]:
                        made.remove_with_pods(key)
                    made.placement.place(
                        [
                            request(
                                OnePod("b", (Term(RACK, "a"), Term(ZONE, None))), 2, TopologyRequest(unconstrained=True)
                            )
                        ]
                    )
                    made.apply(ObjectRemoved(RemovedKind.POD, "ns/f0"))
        for found in islice(parts, 3):
            assert found == []
        if index % 8 == 0:
            assert list(chain.from_iterable(parts)) == []
            assert made.audit() == []
            parts = audit.wrong_counts(made.capacity.placed)
    assert list(chain.from_iterable(parts)) == []
    assert made.audit() == []


@pytest.mark.parametrize("wrong", ["pods", "borne", "of_waiting", "near", "gathering"])
def test_an_audit_finds_wrong_counts(wrong: str) -> None:
    made = book(rows(4))
    made.apply(bound("there", OnePod("a", (Term(RACK, "b"),), node="n0")))
    pod = OnePod("b", (Term(RACK, "a"),), (Term(BLOCK, "b"),))
    asked = request(pod, 1, TopologyRequest(unconstrained=True))
    taken = workload("ns/w", asked, made.placement.place([asked]).assignments["main"])
    made.charge(taken, taken.admission)  # type: ignore[arg-type]
    made.placement.place([request(replace(pod, app="c"), 1, TopologyRequest(unconstrained=True))])
    assert made.audit() == []
    placed = made.capacity.placed
    if wrong == "pods":
        placed.by_facts.popitem()
    else:
        tally = next(iter(getattr(placed, f"_{wrong}").tallies.values()))
        tally.at, tally.elsewhere = {}, 7
    assert any("counted" in text for text in made.audit())


@pytest.mark.usefixtures("one_at_a_time")
@settings(max_examples=examples(25))
@given(STEPS, st.integers(0, 6))
def test_pods_that_are_counted_in_steps_are_those_that_are_there(steps: list[tuple[object, ...]], every: int) -> None:
    """Whatever changes between two steps of the first count; until the last one a workload with terms waits and says why."""
    made = ledger(PlacementOptions(), rows(6))
    left: list[Iterator[None]] = []
    made.count_in_steps(left.append)
    for i in range(20):
        made.apply(bound(f"there{i}", OnePod("a", node=f"n{i % 6}")))
        admit(made, f"ns/w{i}", OnePod("b"), i % 6)
    requested = request(OnePod("a", (Term(HOSTNAME_LABEL, "none"),)), 1, TopologyRequest(unconstrained=True))
    assert "being counted for the first time" in shown(made.placement.place([requested]), "main")
    for index, step in enumerate(steps):
        match step:
            case "pod", int(which), OnePod() as pod, int(on):
                made.apply(bound(f"f{which}", replace(pod, node=f"n{on}", namespace="ns")))
            case "no pod", int(which):
                made.apply(ObjectRemoved(RemovedKind.POD, f"ns/there{which}"))
                made.apply(ObjectRemoved(RemovedKind.POD, f"ns/f{which}"))
            case "node", int(which), int(rack), bool(usable):
                labels = {HOSTNAME_LABEL: f"n{which}", BLOCK: f"b{rack // 2}", RACK: f"r{rack}", ZONE: f"z{rack // 2}"}
                made.apply(replace(node(f"n{which}", labels), usable=usable))
            case "no node", int(which):
                made.apply(ObjectRemoved(RemovedKind.NODE, f"n{which}"))
            case "admit", OnePod() as pod, int(which), _:
                made.release(f"ns/w{which}")
                admit(made, f"ns/w{which + index}", OnePod("a"), which)
            case "bind", int(which):
                pod = OnePod("b", node=f"n{which}")
                made.apply(replace(bound(f"w{which}-0", pod), workload=f"ns/w{which}", pod_set="main", requests=CPU))
            case "release", int(which):
                made.release(f"ns/w{which}")
            case "trial", int(which):
                with made.trial():
                    made.remove_with_pods(f"ns/w{which}")
        if every and index % every == 0:
            next(left[-1], None)
    for _ in left[-1]:
        pass
    assert made.audit() == []
    assert "being counted" not in shown(made.placement.place([requested]), "main")


def admit(books: Ledger, key: str, pod: OnePod, on: int) -> None:
    """Admits two pods on a node, unless the workload is admitted."""
    if key not in books.admissions:
        asked = request(pod, 2, TopologyRequest(unconstrained=True))
        taken = workload(key, asked, Assignment((HOSTNAME_LABEL,), (DomainCount((f"n{on}",), 2),)))
        books.charge(taken, taken.admission)  # type: ignore[arg-type]


def test_no_step_of_the_first_count_takes_more_than_some_nodes_or_pods() -> None:
    """So the loop is held for a millisecond, however many pods there are."""
    made = book(rows(200))
    for i in range(2000):
        made.apply(bound(f"p{i}", OnePod("a", node=f"n{i % 200}")))
    left: list[Iterator[None]] = []
    made.count_in_steps(left.append)
    made.placement.place([request(OnePod("a", (Term(RACK, "b"),)), 1, TopologyRequest(unconstrained=True))])
    counted = [0]
    for _ in left[0]:
        placed = made.capacity.placed
        counted.append(len(placed._named) + sum(f + a for at in placed.by_facts.values() for f, a in at.values()))
    assert max(now - before for before, now in pairwise(counted)) <= 64
    assert counted[-1] > 2100


def test_terms_without_number_are_forgotten_and_asked_again() -> None:
    made = book(rows(4))
    made.apply(bound("db", OnePod("app7", node="n0")))
    for i in range(3000):
        found = made.placement.place(
            [request(OnePod("x", (Term(BLOCK, f"app{i}"),)), 1, TopologyRequest(unconstrained=True))]
        )
        assert found.fits == (i != 7)
    assert not made.placement.place(
        [request(OnePod("x", (Term(BLOCK, "app7"),)), 1, TopologyRequest(unconstrained=True))]
    ).fits
    assert made.audit() == []


def test_terms_of_one_namespace_delay_no_question_about_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile tenant's pods bear terms without end, each for its own pods: none of them is looked at for others."""
    table = TermTable()
    wide = [PodTerm(RACK, (SelectorRequirement(f"k{n}", "Exists"),), ("hostile",)) for n in range(100)]
    named = [PodTerm(f"key{n}", (SelectorRequirement("app", "In", ("a",)),), ("hostile",)) for n in range(100)]
    for term in (*wide, *named):
        table.add(term)
    seen: list[PodTerm] = []
    monkeypatch.setattr(PodTerm, "looks_into", lambda term, *_: seen.append(term) or True)  # type: ignore[func-returns-value]
    assert not list(table.selecting(PodFacts("honest", (("app", "a"), ("k1", ""))), {}))
    assert seen == []
    assert len(list(table.selecting(PodFacts("hostile", (("app", "a"), ("k1", ""))), {}))) == 101
    for term in (*wide, *named):
        table.drop(term)
    assert not list(table.selecting(PodFacts("hostile", (("app", "a"), ("k1", ""))), {}))
