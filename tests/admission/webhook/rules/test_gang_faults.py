"""Each malformed form of the five dialects of gangs, with its answer in full."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admission.integrations.pods import gang as dialects
from admission.webhook.kinds import pod
from admission.webhook.rules import gangs
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from api import names

LONG = "a" * 254
NAME = "must be a DNS subdomain: at most 253 of a-z, 0-9, '-' and '.', a letter or digit at both ends of each part"
MINIMUM = "must be a whole number from 1 to 2147483647"
GROUPS = 'must be a JSON list of gangs, such as ["default/gang-a","default/gang-b"]'
POLICY = "must be one of only-waiting, waiting-and-running, waiting-running-succeed, once-satisfied"
LONELY = f"must be only together with the name of a gang ({names.GANG_NAME})"
MANY = json.dumps([f"ns/g{index}" for index in range(65)])

LABELS, ANNOTATIONS = "labels", "annotations"
Said = dict[str, dict[str, str]]

NAMES = (
    (LABELS, names.GANG_NAME),
    (LABELS, names.SIGS_GANG_NAME),
    (LABELS, names.SIGS_GANG),
    (LABELS, names.GANG_LABEL),
    (ANNOTATIONS, names.KOORDINATOR_NAME),
)
MINIMUMS = (
    (LABELS, names.GANG_MINIMUM),
    (LABELS, names.SIGS_GANG_MINIMUM),
    (ANNOTATIONS, names.KOORDINATOR_MINIMUM),
)
GROUP_LISTS = (
    (ANNOTATIONS, names.SIGS_GANG_GROUPS),
    (ANNOTATIONS, names.KOORDINATOR_GROUPS),
)
POLICIES = (
    (LABELS, names.SIGS_MATCH_POLICY),
    (ANNOTATIONS, names.SIGS_MATCH_POLICY),
    (ANNOTATIONS, names.KOORDINATOR_MATCH_POLICY),
)
BAD = {
    NAMES: {"Gang": NAME, "a_b": NAME, "-a": NAME, "a..b": NAME, "": NAME, LONG: NAME},
    MINIMUMS: dict.fromkeys(("0", "-1", "1.5", "two", "", "2147483648", "9" * 40, "0x2", " 2"), MINIMUM),
    GROUP_LISTS: {
        "a,b": GROUPS,
        '"ns/a"': GROUPS,
        '{"ns/a": 1}': GROUPS,
        "[1]": GROUPS,
        '["a"]': GROUPS,
        '["/a"]': GROUPS,
        '["ns/"]': GROUPS,
        '["ns/A"]': GROUPS,
        '["NS/a"]': GROUPS,
        "[" * 100_000: GROUPS,
        "": GROUPS,
        MANY: "must be at most 64 gangs",
    },
    POLICIES: {"never": POLICY, "": POLICY, "Only-Waiting": POLICY},
}


def a_pod(message: Said) -> dict[str, Any]:
    return {"metadata": {"name": "p", **message}, "spec": {"containers": [{"name": "main"}]}}


def answers(message: Said) -> list[str]:
    """What a user who creates such a pod is told."""
    made = a_pod(message)
    pod.set_defaults(made, "ns", Lookups(), ReviewRules())
    errors = pod.validate_create(made, ReviewRules()) if pod.is_gated(made) else []
    return [error.message for error in [*errors, *gangs.validate_create(made, "ns", Lookups())]]


def told(part: str, key: str, value: str, rule: str) -> str:
    shown = json.dumps(value)
    if len(shown) > 1024:
        shown = f"{shown[:1024]}... ({len(shown)} characters)"
    return f"metadata.{part}[{key}]: Invalid value: {shown}: {rule}"


def with_name(part: str, key: str, value: str) -> Said:
    said: Said = {LABELS: {names.GANG_NAME: "g"}, ANNOTATIONS: {}}
    said[part][key] = value
    return said


CASES = [
    pytest.param(table, part, key, given, rule, id=f"{key.rpartition('/')[2] or key} in {part}: {given[:20]!r}")
    for table, faults in BAD.items()
    for part, key in table
    for given, rule in faults.items()
]


@pytest.mark.parametrize(("table", "part", "key", "value", "rule"), CASES)
def test_what_is_malformed_is_refused_with_its_place_the_value_and_what_is_allowed(
    table: tuple[tuple[str, str], ...], part: str, key: str, value: str, rule: str
) -> None:
    said = {part: {key: value}} if table is NAMES else with_name(part, key, value)
    assert answers(said) == [told(part, key, value, rule)]


@pytest.mark.parametrize(("part", "key"), [*MINIMUMS, *GROUP_LISTS, *POLICIES])
def test_what_belongs_to_a_gang_is_refused_where_no_gang_is_named(part: str, key: str) -> None:
    assert answers({part: {key: "2"}}) == [told(part, key, "2", LONELY)]


@pytest.mark.parametrize(("part", "key"), NAMES[1:])
def test_a_pod_that_names_two_gangs_is_refused(part: str, key: str) -> None:
    assert answers(with_name(part, key, "other")) == [
        told(part, key, "other", f"must be the same as {names.GANG_NAME}, g")
    ]
    assert answers(with_name(part, key, "g")) == []


@pytest.mark.parametrize(("part", "key"), MINIMUMS[1:])
def test_a_pod_that_says_two_minimums_is_refused(part: str, key: str) -> None:
    said = with_name(part, key, "3")
    said[LABELS][names.GANG_MINIMUM] = "2"
    assert answers(said) == [told(part, key, "3", f"must be the same as {names.GANG_MINIMUM}, 2")]


BOTH = f"both the '{names.POD_GROUP_TOTAL_COUNT}' annotation and the '{names.POD_GROUP_NAME}' label should be set"


@pytest.mark.parametrize(
    ("name", "total", "answer"),
    [
        ("g", None, f"metadata.annotations[{names.POD_GROUP_TOTAL_COUNT}]: Required value: {BOTH}"),
        (None, "2", f"metadata.labels[{names.POD_GROUP_NAME}]: Required value: {BOTH}"),
        ("g", "two", 'strconv.Atoi: parsing "two": invalid syntax'),
        (
            "g",
            "0",
            f"incorrect annotation value '{names.POD_GROUP_TOTAL_COUNT}=0': group total count should be greater than zero",
        ),
        (
            "g",
            "-3",
            f"incorrect annotation value '{names.POD_GROUP_TOTAL_COUNT}=-3': group total count should be greater than zero",
        ),
        ("g", "2147483648", "must be at most 2147483647"),
        ("G_1", "2", "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"),
    ],
)
def test_a_queues_own_group_that_is_malformed_is_refused(name: str | None, total: str | None, answer: str) -> None:
    labels = {names.QUEUE_NAME_LABEL: "lq", **({names.POD_GROUP_NAME: name} if name else {})}
    said = {LABELS: labels, ANNOTATIONS: {names.POD_GROUP_TOTAL_COUNT: total} if total else {}}
    (found,) = answers(said)
    assert answer in found
    assert found.startswith(("metadata.annotations[", "metadata.labels["))


def test_a_pod_of_a_queues_group_is_in_no_gang_of_another_name() -> None:
    said = {
        LABELS: {names.QUEUE_NAME_LABEL: "lq", names.POD_GROUP_NAME: "whole", names.GANG_NAME: "part"},
        ANNOTATIONS: {names.POD_GROUP_TOTAL_COUNT: "2"},
    }
    rule = f"must be the name in {names.POD_GROUP_NAME}, whole: a pod is in one gang"
    assert told(LABELS, names.GANG_NAME, "part", rule) in answers(said)


@pytest.mark.parametrize(("part", "key"), [*GROUP_LISTS, *POLICIES])
def test_what_is_malformed_on_a_pod_group_is_refused_as_on_a_pod(part: str, key: str) -> None:
    faults = BAD[GROUP_LISTS] if (part, key) in GROUP_LISTS else BAD[POLICIES]
    for given, rule in faults.items():
        group = {"metadata": {"name": "g", part: {key: given}}, "spec": {"minMember": 2}}
        assert [error.message for error in gangs.validate_pod_group(group, "ns")] == [told(part, key, given, rule)]


def test_every_key_that_is_read_has_its_malformed_forms_here() -> None:
    known = {*NAMES, *MINIMUMS, *GROUP_LISTS, *POLICIES, (LABELS, names.SAKKARA_GROUP_NAME)}
    read = {*dialects._NAMES, *dialects._MINIMUMS, *dialects._GROUPS, *dialects._POLICIES}
    assert read == known
