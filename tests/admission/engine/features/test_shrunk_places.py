"""An elastic job that has shrunk has the places of the pods that its controller left."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from admission.engine.features.elastic.shrunk_places import shrunk_places
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Admission,
    Assignment,
    BoundPod,
    DomainCount,
    ObjectRemoved,
    PodSet,
    PodSetAdmission,
    RemovedKind,
    TopologyRequest,
    Workload,
)
from api.names import HOSTNAME_LABEL
from tests.admission.engine.cycle.test_moved_pods import charged, ledger_of, places_of

HOSTS = ("a", "b", "c")


def bound(host: str, number: int, pod_set: str = "main") -> BoundPod:
    return BoundPod(f"ns/p-{host}-{number}", host, {"cpu": 1}, "w", pod_set)


def shrunk(places: dict[str, int], left: dict[str, int]) -> Ledger:
    """A job of these places whose controller left these pods; the ledger keeps the first places, as convert.py does."""
    ledger = ledger_of(dict.fromkeys(HOSTS, ("r1", 4)))
    was = charged(ledger, places, TopologyRequest(unconstrained=True))
    for host, count in places.items():
        for number in range(count):
            ledger.apply(bound(host, number))
    total, kept = sum(left.values()), dict[str, int]()
    for host, count in sorted(places.items()):
        kept[host] = min(count, total - sum(kept.values()))
    [got] = was.admission.pod_sets if was.admission else ()
    assert got.assignment is not None
    domains = tuple(replace(d, count=kept[d.values[-1]]) for d in got.assignment.domains if kept[d.values[-1]])
    now = replace(got, count=total, assignment=replace(got.assignment, domains=domains))
    assert was.admission is not None
    [pod_set] = was.pod_sets
    pod_sets = (replace(pod_set, count=total),)
    ledger.apply(replace(was, pod_sets=pod_sets, admission=replace(was.admission, pod_sets=(now,))))
    return ledger


def end(ledger: Ledger, places: dict[str, int], left: dict[str, int]) -> None:
    """The pods that are not left end."""
    for host, count in places.items():
        for number in range(left.get(host, 0), count):
            ledger.apply(ObjectRemoved(RemovedKind.POD, f"ns/p-{host}-{number}"))


def capacity(ledger: Ledger, host: str) -> int:
    """How many pods of one CPU the host still takes."""
    fits = 0
    for count in range(1, 5):
        at = Assignment((HOSTNAME_LABEL,), (DomainCount((host,), count),))
        got = PodSetAdmission("main", {"cpu": "any"}, {}, count, at)
        other = Workload("o", "uo", "ns/lq", "cq", (PodSet("main", count, {"cpu": 1}),))
        fits = count if ledger.placement.fits(other, Admission("cq", (got,))) else fits
    return fits


@given(
    placed=st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any),
    data=st.data(),
)
def test_places_and_free_capacity_are_those_of_the_pods_that_are_left(placed: list[int], data: st.DataObject) -> None:
    places = {host: count for host, count in zip(HOSTS, placed, strict=True) if count}
    left = {host: data.draw(st.integers(0, count)) for host, count in places.items()}
    if not sum(left.values()):
        return
    ledger = shrunk(places, left)
    if left != places:
        assert shrunk_places(ledger, "w") is None, "pods still end"
    end(ledger, places, left)
    found = shrunk_places(ledger, "w")
    assert found is not None
    assert places_of(found.admission) == {host: count for host, count in left.items() if count}
    assert {host: capacity(ledger, host) for host in HOSTS} == {host: 4 - left.get(host, 0) for host in HOSTS}
    assert ledger.audit() == []


def test_it_waits_until_all_its_pods_are_bound() -> None:
    places = {"a": 2, "b": 2}
    ledger = shrunk(places, {"a": 1, "b": 2})
    end(ledger, places, {"a": 1, "b": 1})
    assert shrunk_places(ledger, "w") is None


def test_a_pod_too_many_changes_no_place() -> None:
    """A pod that names the job and is not one of its own: which one that is nobody can tell."""
    places = {"a": 2, "b": 2}
    ledger = shrunk(places, {"b": 2})
    end(ledger, places, {"b": 2})
    ledger.apply(bound("c", 9))
    assert shrunk_places(ledger, "w") is None
    [got] = ledger.admission("w").pod_sets  # type: ignore[union-attr]  # it is charged
    assert Counter({d.values[-1]: d.count for d in got.assignment.domains}) == {"a": 2}  # type: ignore[union-attr]
