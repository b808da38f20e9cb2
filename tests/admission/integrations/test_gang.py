"""The five ways to name a gang, and what is wrong with each when it is malformed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.integrations.pods.gang import MatchPolicy, PodGang, from_text, groups_of, policy_of, read

GANG = "pod-group.scheduling.x-k8s.io/name"
MINIMUM = "pod-group.scheduling.x-k8s.io/min-available"
SIGS = "pod-group.scheduling.sigs.k8s.io"
KOORDINATOR = "gang.scheduling.koordinator.sh"
TWO = '["default/a","default/b"]'


def labels(**more: str) -> dict[str, Any]:
    return {"labels": more}


def noted(**more: str) -> dict[str, Any]:
    return {"annotations": more}


@pytest.mark.parametrize(
    ("metadata", "gang"),
    [
        pytest.param(labels(**{GANG: "a", MINIMUM: "5"}), PodGang("a", 5), id="coscheduling"),
        pytest.param(
            labels(**{f"{SIGS}/name": "a", f"{SIGS}/min-available": "5"}), PodGang("a", 5), id="older group, with name"
        ),
        pytest.param(labels(**{SIGS: "a", f"{SIGS}/min-available": "5"}), PodGang("a", 5), id="older group, bare"),
        pytest.param(labels(**{"scheduling.x-k8s.io/pod-group": "a"}), PodGang("a"), id="PodGroup"),
        pytest.param(labels(**{GANG: "a"}), PodGang("a"), id="PodGroup by another dialect's label"),
        pytest.param(
            noted(**{f"{KOORDINATOR}/name": "a", f"{KOORDINATOR}/min-available": "3"}),
            PodGang("a", 3, MatchPolicy.ONCE_SATISFIED),
            id="Koordinator",
        ),
        pytest.param(
            noted(**{f"{KOORDINATOR}/name": "a", f"{KOORDINATOR}/groups": TWO}),
            PodGang("a", None, MatchPolicy.ONCE_SATISFIED, ("default/a", "default/b")),
            id="Koordinator with groups",
        ),
        pytest.param(
            {"labels": {GANG: "a"}, "annotations": {f"{SIGS}/groups": TWO}},
            PodGang("a", groups=("default/a", "default/b")),
            id="groups of the older group",
        ),
        pytest.param(
            {"labels": {GANG: "a"}, "annotations": {f"{SIGS}/groups": '["other/b"]'}},
            PodGang("a", groups=("default/a", "other/b")),
            id="groups without the gang itself, and in another namespace",
        ),
        pytest.param(
            {"labels": {GANG: "a"}, "annotations": {f"{SIGS}/groups": '["default/a"]'}}, PodGang("a"), id="group of one"
        ),
        pytest.param(
            labels(**{GANG: "a", f"{SIGS}/match-policy": "waiting-running-succeed"}),
            PodGang("a", policy=MatchPolicy.WAITING_RUNNING_SUCCEED),
            id="match policy",
        ),
        pytest.param(
            {"labels": {GANG: "a", MINIMUM: "2"}, "annotations": {f"{KOORDINATOR}/name": "a"}},
            PodGang("a", 2),
            id="two dialects that agree",
        ),
        pytest.param(labels(app="a"), None, id="no gang"),
        pytest.param(labels(**{"kueue.x-k8s.io/pod-group-name": "a"}), None, id="Kueue's own group"),
        pytest.param({"labels": None, "annotations": None}, None, id="nothing at all"),
    ],
)
def test_a_pod_names_its_gang(metadata: dict[str, Any], gang: PodGang | None) -> None:
    reading = read("default", metadata)
    assert (reading.gang, reading.faults) == (gang, ())


@pytest.mark.parametrize(
    ("metadata", "key", "value", "allowed"),
    [
        pytest.param(labels(**{GANG: "A_b"}), GANG, "A_b", "DNS subdomain", id="name no subdomain"),
        pytest.param(labels(**{SIGS: ""}), SIGS, "", "DNS subdomain", id="name empty"),
        pytest.param(
            noted(**{f"{KOORDINATOR}/name": "a" * 254}),
            f"{KOORDINATOR}/name",
            "a" * 254,
            "253",
            id="name too long",
        ),
        pytest.param(labels(**{GANG: "a", MINIMUM: "0"}), MINIMUM, "0", "from 1", id="minimum 0"),
        pytest.param(labels(**{GANG: "a", MINIMUM: "-3"}), MINIMUM, "-3", "from 1", id="minimum negative"),
        pytest.param(labels(**{GANG: "a", MINIMUM: "2.5"}), MINIMUM, "2.5", "whole number", id="minimum no integer"),
        pytest.param(labels(**{GANG: "a", MINIMUM: "many"}), MINIMUM, "many", "whole number", id="minimum a word"),
        pytest.param(
            labels(**{GANG: "a", MINIMUM: "99999999999"}), MINIMUM, "99999999999", "2147483647", id="minimum too large"
        ),
        pytest.param(labels(**{MINIMUM: "2"}), MINIMUM, "2", "only together with the name", id="minimum of no gang"),
        pytest.param(
            labels(**{GANG: "a", SIGS: "b"}),
            SIGS,
            "b",
            "the same as pod-group.scheduling.x-k8s.io/name, a",
            id="two gangs",
        ),
        pytest.param(
            labels(**{GANG: "a", MINIMUM: "2", f"{SIGS}/min-available": "3"}),
            f"{SIGS}/min-available",
            "3",
            "the same as",
            id="two minimums",
        ),
        pytest.param(
            labels(**{GANG: "a", "kueue.x-k8s.io/pod-group-name": "b"}), GANG, "a", "name, b", id="Kueue's is other"
        ),
        pytest.param(
            labels(**{GANG: "a", f"{SIGS}/match-policy": "sometimes"}),
            f"{SIGS}/match-policy",
            "sometimes",
            "once-satisfied",
            id="unknown policy",
        ),
        *(
            pytest.param(
                noted(**{f"{KOORDINATOR}/name": "a", f"{KOORDINATOR}/groups": text}),
                f"{KOORDINATOR}/groups",
                text,
                "JSON list",
                id=f"groups {text}",
            )
            for text in ("default/b", "[1]", '{"a":"b"}', '["b"]', '["Default/b"]', '["default/"]', "[" * 5000)
        ),
        pytest.param(
            noted(**{f"{KOORDINATOR}/groups": TWO}),
            f"{KOORDINATOR}/groups",
            TWO,
            "only together with the name",
            id="groups alone",
        ),
    ],
)
def test_an_invalid_gang_name_is_reported_with_its_place(
    metadata: dict[str, Any], key: str, value: str, allowed: str
) -> None:
    reading = read("default", metadata)
    assert reading.gang is None
    (fault,) = reading.faults
    assert (fault.key, fault.given) == (key, value)
    assert allowed in fault.allowed


def test_more_gangs_than_can_start_together_are_refused() -> None:
    many = json.dumps([f"default/g{i}" for i in range(65)])
    (fault,) = read("default", noted(**{f"{KOORDINATOR}/name": "a", f"{KOORDINATOR}/groups": many})).faults
    assert fault.allowed == "at most 64 gangs"


names = st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


@given(
    name=names,
    minimum=st.none() | st.integers(1, 2**31 - 1),
    policy=st.sampled_from(MatchPolicy),
    groups=st.lists(names.map("ns/{}".format), max_size=4).map(tuple),
)
def test_the_one_form_comes_back(name: str, minimum: int | None, policy: MatchPolicy, groups: tuple[str, ...]) -> None:
    gang = PodGang(name, minimum, policy, groups)
    assert from_text(gang.to_text()) == gang


@pytest.mark.parametrize("text", [None, "", "x", "[]", "3", '{"name":"a"}', '{"name":"a","policy":"?"}'])
def test_what_a_stranger_wrote_is_no_gang(text: str | None) -> None:
    assert from_text(text) is None


def test_a_pod_group_says_groups_and_policy_too() -> None:
    metadata = {"annotations": {f"{SIGS}/groups": TWO}, "labels": {f"{SIGS}/match-policy": "only-waiting"}}
    assert groups_of("default/a", metadata) == (("default/a", "default/b"), [])
    assert policy_of(metadata) is MatchPolicy.ONLY_WAITING
    assert policy_of({"labels": {f"{SIGS}/match-policy": "sometimes"}}) is None
