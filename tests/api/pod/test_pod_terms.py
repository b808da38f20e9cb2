"""What a pod says of other pods, as values; what is too large or of a wrong form is named, and never ends the reader."""

from __future__ import annotations

from typing import Any

import pytest

from api.pod.pod_terms import PodFacts, PodTerm, SelectorRequirement, SpreadTerm, pod_facts, with_spread
from api.pod.pods import pod_spec

LABELS = {"app": "train"}
APP = {"matchLabels": {"app": "train"}}


def facts(kind: str, *terms: dict[str, Any]) -> PodFacts:
    affinity = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}
    return pod_facts(pod_spec({"spec": {"containers": [], "affinity": affinity}}), "ns", LABELS)


def term(selector: dict[str, Any] | None = APP, **more: Any) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": selector, **more}


ONE = SelectorRequirement("app", "In", ("train",))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(term(), PodTerm("zone", (ONE,), ("ns",)), id="its own namespace"),
        pytest.param(term(namespaces=["b", "a"]), PodTerm("zone", (ONE,), ("a", "b")), id="namespaces by name"),
        pytest.param(term(namespaceSelector={}), PodTerm("zone", (ONE,), (), ()), id="all namespaces"),
        pytest.param(term(None), PodTerm("zone", None, ("ns",)), id="no selector"),
        pytest.param(term({}), PodTerm("zone", (), ("ns",)), id="an empty selector"),
        pytest.param(term({}, matchLabelKeys=["app", "gone"]), PodTerm("zone", (ONE,), ("ns",)), id="matchLabelKeys"),
        pytest.param(
            term({"matchExpressions": [{"key": "app", "operator": "In", "values": ["train", "train"]}]}),
            PodTerm("zone", (ONE,), ("ns",)),
            id="the same said otherwise",
        ),
    ],
)
def test_a_term(value: dict[str, Any], expected: PodTerm) -> None:
    assert facts("podAntiAffinity", value).apart == (expected,)
    assert facts("podAffinity", value).together == (expected,)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({"matchExpressions": [{"key": "a"}]}, "term 0 cannot be read", id="no operator"),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "Near"}]}, "operator Near", id="no such operator"),
        pytest.param({"matchExpressions": 3}, "cannot be read", id="no list"),
        pytest.param({"matchLabels": {str(i): "" for i in range(65)}}, "65 expressions", id="too many"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "In", "values": list(map(str, range(300)))}]},
            "300 values",
            id="too many values",
        ),
    ],
)
def test_a_term_that_cannot_be_counted_is_named_and_keeps_its_namespace_away(
    value: dict[str, Any], message: str
) -> None:
    found = facts("podAntiAffinity", term(value))
    assert message in found.problem
    assert found.apart == (PodTerm("zone", (), ("ns",)),)


MANY = {"matchExpressions": [{"key": "a", "operator": "In", "values": list(map(str, range(300)))}]}


@pytest.mark.parametrize(
    ("terms", "namespaces", "by_labels"),
    [
        pytest.param([term(MANY), term()], ("ns",), None, id="its own alone"),
        pytest.param([term(MANY), term(namespaces=["b", "a"])], ("a", "b", "ns"), None, id="those that are named"),
        pytest.param([term(MANY), term(namespaceSelector={})], (), (), id="a selector of namespaces"),
        pytest.param([term(MANY), term(namespaces=list(map(str, range(300))))], (), (), id="too many names"),
        pytest.param([term()] * 65, ("ns",), None, id="too many terms"),
    ],
)
def test_terms_that_cannot_be_counted_reach_no_further_than_they_say(
    terms: list[dict[str, Any]], namespaces: tuple[str, ...], by_labels: tuple[SelectorRequirement, ...] | None
) -> None:
    """A tenant that may not name other namespaces cannot close a zone to them by a term that is too long."""
    found = facts("podAntiAffinity", *terms)
    assert found.problem
    assert found.apart == (PodTerm("zone", (), namespaces, by_labels),)


def test_all_terms_of_a_pod_together_are_bounded() -> None:
    values = [str(number) for number in range(250)]
    long = {"matchExpressions": [{"key": "a", "operator": "In", "values": values}]}
    assert not facts("podAntiAffinity", term(long), term(long)).problem
    found = facts("podAntiAffinity", term(long), term(long), term(long))
    assert "759 terms, expressions, values and namespaces; at most 512" in found.problem


def test_affinity_terms_select_the_pods_that_each_of_them_selects() -> None:
    found = facts("podAffinity", term(), {**term({"matchLabels": {"role": "x"}}), "topologyKey": "rack"})
    both = (ONE, SelectorRequirement("role", "In", ("x",)))
    assert found.together == (PodTerm("zone", both, ("ns",)), PodTerm("rack", both, ("ns",)))
    assert "different namespaces" in facts("podAffinity", term(), term(namespaces=["other"])).problem


def spread(**fields: Any) -> PodFacts:
    constraint = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    spec = pod_spec({"spec": {"containers": [], "topologySpreadConstraints": [constraint]}})
    return with_spread(pod_facts(spec, "ns", LABELS), spec)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({"nodeAffinityPolicy": "Ignore"}, "by zone) with nodeAffinityPolicy Ignore", id="all nodes"),
        pytest.param({"labelSelector": {"matchExpressions": [{}]}}, "cannot be read", id="no selector"),
        pytest.param({"labelSelector": {"matchLabels": {f"k{n}": "v" for n in range(99)}}}, "has 99 expressions", id="long"),
    ],
)  # fmt: skip
def test_a_spread_constraint_that_cannot_be_counted_is_named(value: dict[str, Any], message: str) -> None:
    assert message in spread(**value).problem


def test_spread_constraints_count_the_pods_that_they_select() -> None:
    """Those of the namespace; a label that the pod does not have is no match label key; only a wish is none."""
    asked = spread(labelSelector={"matchLabels": {"role": "x"}}, matchLabelKeys=["none", "app"])
    wanted = (ONE, SelectorRequirement("role", "In", ("x",)))
    assert asked.even == (SpreadTerm(PodTerm("zone", wanted, ("ns",)), 2),)
    honoured = spread(labelSelector={}, minDomains=3, nodeTaintsPolicy="Honor")
    assert honoured.even == (SpreadTerm(PodTerm("zone", (), ("ns",)), 2, 3, taints=True),)
    assert spread().even == (), "without a selector no pods count"
    assert spread(whenUnsatisfiable="ScheduleAnyway", labelSelector={}, nodeAffinityPolicy="Ignore").even == ()


def test_affinity_that_cannot_be_counted_leaves_anti_affinity_as_it_is() -> None:
    """A pod that is placed keeps others away by its anti-affinity alone."""
    near = [term(), term(namespaces=["other"])]
    affinity = {
        kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        for kind, terms in (("podAffinity", near), ("podAntiAffinity", [term()]))
    }
    found = pod_facts(pod_spec({"spec": {"containers": [], "affinity": affinity}}), "ns", LABELS)
    assert "different namespaces" in found.problem
    assert found.apart == (PodTerm("zone", (ONE,), ("ns",)),)
