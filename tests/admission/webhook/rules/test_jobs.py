"""Jobs and JobSets: defaults at creation, and bad input to the exact answer."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from admission.webhook.kinds.job import JOB
from admission.webhook.kinds.jobset import JOBSET
from admission.webhook.rules.annotations import QueueLevels
from admission.webhook.rules.defaults import set_defaults
from admission.webhook.rules.fields import Errors
from admission.webhook.rules.jobs import ReviewedKind, queue_levels, validate_create, validate_update
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from api import names
from tests.admission.webhook.objects import BLOCK, QUEUE, RACK, job, jobset, lookups

GATE = [{"name": names.TOPOLOGY_GATE}]
RULES = ReviewRules()


def defaulted(
    value: dict[str, Any],
    kind: ReviewedKind = JOB,
    cached: Lookups | None = None,
    rules: ReviewRules = RULES,
    namespace: str = "ns",
) -> dict[str, Any]:
    changed = copy.deepcopy(value)
    set_defaults(changed, namespace, kind, cached or Lookups(), rules)
    return changed


def lines(errors: Errors) -> list[str]:
    return [error.message for error in errors]


# ---- defaults


@pytest.mark.parametrize(
    ("annotations", "template"),
    [
        pytest.param({names.REQUIRE_TOPOLOGY: RACK}, {}, id="job-requires"),
        pytest.param({names.PREFER_TOPOLOGY: "auto"}, {}, id="job-prefers-auto"),
        pytest.param({}, {names.PREFER_TOPOLOGY: RACK}, id="template-prefers"),
        pytest.param({}, {names.REQUIRED_TOPOLOGY: RACK}, id="current-form"),
        pytest.param({}, {names.UNCONSTRAINED_TOPOLOGY: "true"}, id="unconstrained"),
        pytest.param({}, {names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "2"}, id="slices"),
    ],
)
def test_a_job_that_asks_for_a_topology_is_gated(annotations: dict[str, str], template: dict[str, str]) -> None:
    made = defaulted(job(annotations=annotations, template=template))["spec"]
    assert made["suspend"] is True
    assert made["template"]["spec"]["schedulingGates"] == GATE
    assert made["template"]["metadata"]["annotations"] == {**template, names.TOPOLOGY_PODSET: "main"}
    assert made["template"]["metadata"]["labels"] == {names.PODSET_LABEL: "main"}


def test_a_job_that_asks_for_none_is_only_suspended() -> None:
    given = job()
    assert defaulted(given) == {**given, "spec": {**given["spec"], "suspend": True}}


def test_foreign_gates_and_annotations_stay_and_ours_is_not_doubled() -> None:
    given = job(template={names.REQUIRED_TOPOLOGY: RACK, "theirs": "x"})
    given["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "theirs"}, *GATE]
    made = defaulted(given)["spec"]["template"]
    assert made["spec"]["schedulingGates"] == [{"name": "theirs"}, *GATE]
    assert made["metadata"]["annotations"]["theirs"] == "x"


def test_a_prebuilt_workload_is_known_at_creation() -> None:
    asked = {names.REQUIRE_TOPOLOGY: RACK, names.PREBUILT_WORKLOAD: "wl"}
    made = defaulted(job(annotations=asked))["spec"]["template"]["metadata"]["annotations"]
    assert made == {names.TOPOLOGY_PODSET: "main", names.TOPOLOGY_WORKLOAD: "wl", names.WORKLOAD_ANNOTATION: "wl"}


def test_only_the_replicated_jobs_that_ask_are_gated() -> None:
    made = defaulted(jobset(None, Leader=(1, 1, {}), workers=(2, 4, {names.PREFERRED_TOPOLOGY: RACK})), JOBSET)
    leader, workers = (r["template"]["spec"]["template"] for r in made["spec"]["replicatedJobs"])
    assert made["spec"]["suspend"] is True
    assert "schedulingGates" not in leader["spec"]
    assert workers["spec"]["schedulingGates"] == GATE
    assert workers["metadata"]["labels"] == {names.PODSET_LABEL: "workers"}


def test_a_jobset_that_asks_gates_all_its_pod_sets_by_their_lower_case_names() -> None:
    made = defaulted(jobset({names.PREFER_TOPOLOGY: RACK}, Leader=(1, 1, {}), workers=(2, 4, {})), JOBSET)
    templates = [r["template"]["spec"]["template"] for r in made["spec"]["replicatedJobs"]]
    assert [t["metadata"]["labels"][names.PODSET_LABEL] for t in templates] == ["leader", "workers"]
    assert all(t["spec"]["schedulingGates"] == GATE for t in templates)


def test_the_default_queue_is_taken_where_there_is_one() -> None:
    made = defaulted(job(labels={}), cached=lookups(default_queue=True))
    assert made["metadata"]["labels"] == {names.QUEUE_NAME_LABEL: "default"}
    assert made["spec"]["suspend"] is True


OWNER = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "u", "controller": True}


@pytest.mark.parametrize(
    ("labels", "owner", "namespace"),
    [
        pytest.param({}, None, "ns", id="no-queue-and-no-default"),
        pytest.param(QUEUE, OWNER, "ns", id="child-of-a-jobset"),
        pytest.param(QUEUE, None, "kube-system", id="exempt-namespace"),
    ],
)
def test_a_job_that_is_not_managed_stays_as_it_is(
    labels: dict[str, str], owner: dict[str, Any] | None, namespace: str
) -> None:
    given = job(labels=labels, annotations={names.REQUIRE_TOPOLOGY: RACK})
    if owner:
        given["metadata"]["ownerReferences"] = [owner]
    assert defaulted(given, cached=lookups(default_queue=namespace != "ns"), namespace=namespace) == given


def test_namespaces_are_selected_by_their_labels() -> None:
    rules = ReviewRules(managed_namespaces={"matchLabels": {"team": "a"}})
    known = Lookups(namespace_labels=lambda name: {"team": "a"} if name == "ns" else None)
    assert "suspend" in defaulted(job(), cached=known, rules=rules)["spec"]
    assert "suspend" not in defaulted(job(), cached=known, rules=rules, namespace="other")["spec"]


# ---- the first forms

TOO_MANY = "Invalid value: must not contain more than one topology annotation: "
ANNOTATIONS = "metadata.annotations"
TEMPLATE = "spec.template.metadata.annotations"
LEVELS = QueueLevels("cq", (BLOCK, RACK))
ALL_LEVELS = f'the levels of ClusterQueue "cq": {BLOCK}, {RACK}'


@pytest.mark.parametrize(
    ("annotations", "template", "want"),
    [
        pytest.param(
            {names.REQUIRE_TOPOLOGY: RACK, names.PREFER_TOPOLOGY: RACK},
            {},
            f'{ANNOTATIONS}: {TOO_MANY}["{names.REQUIRE_TOPOLOGY}", "{names.PREFER_TOPOLOGY}"]',
            id="both-on-the-job",
        ),
        pytest.param(
            {},
            {names.REQUIRE_TOPOLOGY: RACK, names.PREFER_TOPOLOGY: RACK},
            f'{TEMPLATE}: {TOO_MANY}["{names.REQUIRE_TOPOLOGY}", "{names.PREFER_TOPOLOGY}"]',
            id="both-on-the-template",
        ),
        pytest.param(
            {},
            {names.REQUIRE_TOPOLOGY: RACK, names.REQUIRED_TOPOLOGY: BLOCK},
            f'{TEMPLATE}: {TOO_MANY}["{names.REQUIRED_TOPOLOGY}", "{names.PREFERRED_TOPOLOGY}",'
            f' "{names.UNCONSTRAINED_TOPOLOGY}", "{names.REQUIRE_TOPOLOGY}"]',
            id="generations-that-disagree",
        ),
        pytest.param(
            {names.REQUIRE_TOPOLOGY: "auto"},
            {},
            f'{ANNOTATIONS}[{names.REQUIRE_TOPOLOGY}]: Invalid value: "auto": must name a level ({ALL_LEVELS}):'
            f" 'auto' is only for '{names.PREFER_TOPOLOGY}'",
            id="auto-on-require",
        ),
        pytest.param(
            {names.PREFER_TOPOLOGY: "cloud.com/row"},
            {},
            f'{ANNOTATIONS}[{names.PREFER_TOPOLOGY}]: Invalid value: "cloud.com/row": must be one of {ALL_LEVELS}',
            id="unknown-level",
        ),
        pytest.param(
            {},
            {names.REQUIRE_TOPOLOGY: "cloud.com/row"},
            f'{TEMPLATE}[{names.REQUIRE_TOPOLOGY}]: Invalid value: "cloud.com/row": must be one of {ALL_LEVELS}',
            id="unknown-level-on-the-template",
        ),
        pytest.param({names.REQUIRE_TOPOLOGY: RACK}, {names.PREFER_TOPOLOGY: BLOCK}, None, id="one-on-each"),
        pytest.param(
            {}, {names.REQUIRE_TOPOLOGY: RACK, names.REQUIRED_TOPOLOGY: RACK}, None, id="both-generations-agree"
        ),
        pytest.param({names.PREFER_TOPOLOGY: "auto"}, {}, None, id="auto-on-prefer"),
        pytest.param({}, {names.REQUIRED_TOPOLOGY: "cloud.com/row"}, None, id="current-forms-wait-instead"),
    ],
)
def test_first_forms(annotations: dict[str, str], template: dict[str, str], want: str | None) -> None:
    errors = validate_create(job(annotations=annotations, template=template), JOB, RULES, LEVELS)
    assert lines(errors) == ([want] if want else [])


@pytest.mark.parametrize(
    ("cached", "want"),
    [
        pytest.param(lookups(BLOCK, RACK), QueueLevels("cq", (BLOCK, RACK)), id="inline-levels"),
        pytest.param(lookups(BLOCK, inline=False), QueueLevels("cq", (BLOCK,)), id="levels-by-name"),
        pytest.param(lookups(BLOCK, flavor=False), None, id="flavor-not-known"),
        pytest.param(lookups(), QueueLevels("cq", ()), id="no-topology"),
        pytest.param(Lookups(), None, id="queue-not-known"),
    ],
)
def test_what_is_known_of_a_queue(cached: Lookups, want: QueueLevels | None) -> None:
    assert queue_levels(job(), "ns", cached) == want


def test_a_queue_without_any_topology_is_named() -> None:
    errors = validate_create(job(annotations={names.PREFER_TOPOLOGY: RACK}), JOB, RULES, QueueLevels("cq", ()))
    assert lines(errors) == [
        f'{ANNOTATIONS}[{names.PREFER_TOPOLOGY}]: Invalid value: "{RACK}": '
        'none of the flavors of ClusterQueue "cq" has a topology'
    ]


# ---- the current forms, beyond the conformance cases


@pytest.mark.parametrize(
    ("template", "want"),
    [
        pytest.param(
            {names.PODSET_GROUP_NAME: "7", names.REQUIRED_TOPOLOGY: RACK},
            f'{TEMPLATE}[{names.PODSET_GROUP_NAME}]: Invalid value: "7": must not be a number',
            id="group-is-a-number",
        ),
        pytest.param(
            {names.PODSET_GROUP_NAME: "g"},
            f"{TEMPLATE}[{names.PODSET_GROUP_NAME}]: Forbidden: may not be set when neither"
            f" '{names.PREFERRED_TOPOLOGY}' nor '{names.REQUIRED_TOPOLOGY}' is specified",
            id="group-without-level",
        ),
        pytest.param(
            {names.UNCONSTRAINED_TOPOLOGY: "yes"},
            f'{TEMPLATE}[{names.UNCONSTRAINED_TOPOLOGY}]: Invalid value: "yes": must be a boolean value',
            id="unconstrained-is-no-bool",
        ),
        pytest.param(
            {names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "5"},
            f'{TEMPLATE}[{names.SLICE_SIZE}]: Invalid value: "5": must not be greater than pod set count 4',
            id="slice-larger-than-the-pod-set",
        ),
    ],
)
def test_template_annotations(template: dict[str, str], want: str) -> None:
    assert lines(validate_create(job(template=template), JOB, RULES)) == [want]


def test_the_jobs_level_is_enough_for_a_group() -> None:
    group = {names.PODSET_GROUP_NAME: "g"}
    given = jobset({names.REQUIRE_TOPOLOGY: RACK}, leader=(1, 1, group), workers=(2, 4, group))
    assert validate_create(given, JOBSET, RULES) == []


@pytest.mark.parametrize(
    ("counts", "want"),
    [
        pytest.param([1, 2, 3], "can only define groups of exactly 2 pod sets, got: 3 pod set(s)", id="three"),
        pytest.param([1], "can only define groups of exactly 2 pod sets, got: 1 pod set(s)", id="one"),
        pytest.param(
            [2, 3],
            "can only define groups where at least one pod set has only 1 replica, got: "
            "2 replica(s) and 3 replica(s) in the group",
            id="no-leader",
        ),
    ],
)
def test_groups(counts: list[int], want: str) -> None:
    said = {names.PODSET_GROUP_NAME: "g", names.REQUIRED_TOPOLOGY: RACK}
    rules = ReviewRules(profile=names.COMPATIBLE)
    errors = validate_create(jobset(None, **{f"j{i}": (n, 1, said) for i, n in enumerate(counts)}), JOBSET, rules)
    assert {error.detail for error in errors} == {want}
    assert len(errors) == len(counts)


@pytest.mark.parametrize(
    "slices",
    [
        {names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "2"},
        {names.SLICE_CONSTRAINTS: f'[{{"topology": "{RACK}", "size": 2}}]'},
    ],
    ids=["slices", "layers"],
)
@pytest.mark.parametrize(("profile", "refused"), [(None, False), (names.COMPATIBLE, True)])
def test_a_group_with_slices_runs_under_the_profile_that_solves_groups(
    slices: dict[str, str], profile: str | None, refused: bool
) -> None:
    group = {names.PODSET_GROUP_NAME: "g", names.REQUIRED_TOPOLOGY: RACK}
    given = jobset(None, leader=(1, 1, group), workers=(2, 4, {**group, **slices}))
    details = {error.detail for error in validate_create(given, JOBSET, ReviewRules(profile=profile))}
    assert details == ({f"may not be set when '{key}' is specified" for key in slices} if refused else set())


# ---- change


def test_unsuspending_by_hand_is_never_refused() -> None:
    asked = {names.REQUIRE_TOPOLOGY: RACK}
    old = defaulted(job(annotations=asked))
    new = {**old, "spec": {**old["spec"], "suspend": False}}
    assert validate_update(old, new, JOB, RULES, LEVELS) == []


def test_a_job_that_was_started_may_still_be_labelled() -> None:
    """The start writes the current form beside the first one."""
    started = job(template={names.REQUIRE_TOPOLOGY: RACK, names.REQUIRED_TOPOLOGY: RACK}, suspend=False)
    labelled = {**started, "metadata": {**started["metadata"], "labels": {**QUEUE, "mine": "x"}}}
    assert validate_update(started, labelled, JOB, RULES) == []


def test_a_job_that_is_going_may_change_freely() -> None:
    old = job(annotations={names.REQUIRE_TOPOLOGY: "auto"}, suspend=False)
    new = {**old, "metadata": {**old["metadata"], "labels": {}, "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert validate_update(old, new, JOB, RULES) == []


def test_children_of_a_jobset_are_not_judged() -> None:
    child = job(template={names.PODSET_GROUP_NAME: "g"})
    child["metadata"]["ownerReferences"] = [OWNER]
    assert validate_create(child, JOB, RULES) == []


@pytest.mark.parametrize("change", [{"labels": {**QUEUE, "mine": "x"}}, {"annotations": {"kueue.x-k8s.io/x": "y"}}])
def test_a_job_that_runs_with_its_minimum_of_pods_may_be_changed(change: dict[str, Any]) -> None:
    """It asked for six pods, four at least, and was admitted with four. The start itself is such an update."""
    minimum = {names.MIN_PARALLELISM: "4"}
    waiting = job(annotations=minimum, suspend=True, parallelism=6)
    running = job(annotations=minimum, suspend=False, parallelism=4)
    assert validate_update(waiting, running, JOB, RULES) == []
    meta = {**running["metadata"], **change}
    meta["annotations"] = {**minimum, **change.get("annotations", {})}
    assert validate_update(running, {**running, "metadata": meta}, JOB, RULES) == []
    meta["annotations"] = {names.MIN_PARALLELISM: "5"}
    (error,) = validate_update(running, {**running, "metadata": meta}, JOB, RULES)
    assert error.detail == "should be between 0 and 3"
    (error,) = validate_update(waiting, job(annotations=minimum, suspend=True, parallelism=4), JOB, RULES)
    assert error.detail == "should be between 0 and 3"
