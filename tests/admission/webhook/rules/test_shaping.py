"""Our own annotations at the webhook: constraints, relaxation, profiles, and groups by profile; to the exact answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.settings import AdmissionSettings
from admission.webhook.kinds import queues, workloads
from admission.webhook.kinds.job import JOB
from admission.webhook.kinds.jobset import JOBSET
from admission.webhook.rules.defaults import set_defaults
from admission.webhook.rules.jobs import validate_create, with_profile
from admission.webhook.rules.review_rules import ReviewRules, webhook_rules
from admission.world.rules import rules_of
from api import names
from tests.admission.webhook.objects import BLOCK, RACK, job, jobset, lookups
from tests.admission.webhook.rules.test_jobs import lines

RULES = ReviewRules()
SHAPED, RELAX, PROFILE = names.PLACEMENT_CONSTRAINTS, names.RELAX_TOPOLOGY_AFTER, names.PLACEMENT_PROFILE
SPARES, SPARE_NUMBER = names.SPARE_HOSTS, "must be a whole number from 1 to 100"
ON_JOB, ON_TEMPLATE = "metadata.annotations", "spec.template.metadata.annotations"
PARTS = '{"rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}}'
NUMBER = "must be a whole number from 1 to 2147483647"
NO_TOPOLOGY = (
    f"may not be set without a topology request; add '{names.REQUIRE_TOPOLOGY}', '{names.PREFER_TOPOLOGY}' or "
    f"'{names.UNCONSTRAINED_TOPOLOGY}'"
)
NOT_REQUIRED = f"may not be set when neither '{names.REQUIRE_TOPOLOGY}' nor '{names.REQUIRED_TOPOLOGY}' is specified"


@pytest.mark.parametrize(
    ("annotations", "template", "want"),
    [
        pytest.param({SHAPED: PARTS}, {}, [], id="on-the-job"),
        pytest.param({}, {SHAPED: PARTS}, [], id="on-the-template"),
        pytest.param({names.REQUIRE_TOPOLOGY: BLOCK, SHAPED: PARTS, RELAX: "10m"}, {}, [], id="with-a-required-level"),
        pytest.param(
            {SHAPED: PARTS}, {names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "2"}, [], id="with-slices"
        ),
        pytest.param({RELAX: "1h30m"}, {names.REQUIRED_TOPOLOGY: RACK}, [], id="the-job-relaxes-its-template"),
        pytest.param({names.REQUIRE_TOPOLOGY: RACK, SPARES: "1"}, {}, [], id="a-spare-host"),
        pytest.param({SPARES: "100"}, {names.PREFERRED_TOPOLOGY: RACK}, [], id="a-hundred-spare-hosts"),
        *(
            pytest.param(
                {names.REQUIRE_TOPOLOGY: RACK, SPARES: text}, {},
                [f'{ON_JOB}[{SPARES}]: Invalid value: "{text}": {SPARE_NUMBER}'],
                id=f"{text or 'no'}-spare-hosts",
            )
            for text in ("", "one", "0", "-1", "1.5", "101", "1000000000", "9" * 30)
        ),
        pytest.param(
            {SPARES: "1"}, {}, [f"{ON_JOB}[{SPARES}]: Forbidden: {NO_TOPOLOGY}"], id="spare-hosts-of-no-topology"
        ),
        pytest.param(
            {}, {SPARES: "1"}, [f"{ON_TEMPLATE}[{SPARES}]: Forbidden: {NO_TOPOLOGY}"], id="template-without-topology"
        ),
        pytest.param(
            {SHAPED: "{"}, {},
            [f'{ON_JOB}[{SHAPED}]: Invalid value: "{{": must be a JSON object by level: '
             "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"],
            id="no-json",
        ),
        pytest.param(
            {}, {SHAPED: '{"rack": {"factor": 0}}'},
            [f"{ON_TEMPLATE}[{SHAPED}][rack].factor: Invalid value: 0: {NUMBER}"],
            id="factor-0",
        ),
        pytest.param(
            {SHAPED: '{"rack": {"min": 3, "max": 2}}'}, {},
            [f"{ON_JOB}[{SHAPED}][rack].min: Invalid value: 3: contradicts max 2: must not be greater"],
            id="contradiction",
        ),
        pytest.param(
            {SHAPED: '{"rack": {"type": "spread", "partitions": 5}}'}, {},
            [f'{ON_JOB}[{SHAPED}][rack].partitions: Invalid value: 5: contradicts the size of pod set "main": 4 pod(s)'],
            id="more-partitions-than-pods",
        ),
        pytest.param(
            {}, {SHAPED: PARTS, names.PODSET_GROUP_NAME: "g", names.REQUIRED_TOPOLOGY: RACK},
            [f"{ON_TEMPLATE}[{SHAPED}]: Forbidden: may not be set when '{names.PODSET_GROUP_NAME}' is specified"],
            id="in-a-group",
        ),
        pytest.param(
            {RELAX: "10m"}, {}, [f"{ON_JOB}[{RELAX}]: Forbidden: {NOT_REQUIRED}"], id="nothing-to-relax"
        ),
        pytest.param(
            {names.PREFER_TOPOLOGY: RACK, RELAX: "10m"}, {},
            [f"{ON_JOB}[{RELAX}]: Forbidden: {NOT_REQUIRED}"], id="preferred-needs-no-relaxation",
        ),
        pytest.param(
            {names.REQUIRE_TOPOLOGY: RACK}, {names.PREFERRED_TOPOLOGY: RACK, RELAX: "10m"},
            [f"{ON_TEMPLATE}[{RELAX}]: Forbidden: {NOT_REQUIRED}"], id="template-prefers",
        ),
        pytest.param(
            {names.REQUIRE_TOPOLOGY: RACK, RELAX: "soon"}, {},
            [f'{ON_JOB}[{RELAX}]: Invalid value: "soon": must be a duration such as 90s, 10m or 1h30m'], id="no-duration",
        ),
        pytest.param(
            {names.REQUIRE_TOPOLOGY: RACK, RELAX: "0"}, {},
            [f'{ON_JOB}[{RELAX}]: Invalid value: "0": '
             "must be a duration such as 90s, 10m or 1h30m, of whole seconds, at least 1s"], id="no-time-at-all",
        ),
        pytest.param(
            {names.ELASTIC_JOB: "true", SHAPED: PARTS}, {},
            [f"{ON_TEMPLATE}[{SHAPED}]: Forbidden: placement constraints are not supported with elastic jobs"], id="elastic",
        ),
        pytest.param({PROFILE: "Compatible"}, {}, [], id="profile"),
        pytest.param(
            {PROFILE: "exact"}, {},
            [f'{ON_JOB}[{PROFILE}]: Unsupported value: "exact": supported values: "Compatible", "Exact", "LeastFree"'],
            id="no-such-profile",
        ),
        pytest.param({names.MOVABLE: "true", names.MOVE_COST: "5m"}, {}, [], id="movable"),
        pytest.param(
            {names.MOVABLE: "yes"}, {},
            [f'{ON_JOB}[{names.MOVABLE}]: Invalid value: "yes": must be true or false'],
            id="movable-yes",
        ),
    ],
)  # fmt: skip
def test_job(annotations: dict[str, str], template: dict[str, str], want: list[str]) -> None:
    assert lines(validate_create(job(annotations=annotations, template=template), JOB, RULES)) == want


def test_constraints_of_a_jobset_are_held_against_each_of_its_pod_sets() -> None:
    given = jobset({SHAPED: PARTS}, driver=(1, 1, {}), workers=(2, 4, {}))
    assert lines(validate_create(given, JOBSET, RULES)) == [
        f'{ON_JOB}[{SHAPED}][rack].partitions: Invalid value: 2: contradicts the size of pod set "driver": 1 pod(s)'
    ]
    own = jobset({}, driver=(1, 1, {}), workers=(2, 4, {SHAPED: PARTS}))
    assert lines(validate_create(own, JOBSET, RULES)) == []


def test_constraints_alone_gate_the_pods() -> None:
    given = job(annotations={SHAPED: PARTS})
    set_defaults(given, "ns", JOB, lookups(RACK), RULES)
    assert given["spec"]["template"]["spec"]["schedulingGates"] == [{"name": names.TOPOLOGY_GATE}]


# ---- Workloads and ClusterQueues


def workload(annotations: dict[str, str] | None = None, **request: Any) -> dict[str, Any]:
    pod_set = {"name": "main", "count": 4, "template": {"spec": {"containers": []}}, "topologyRequest": request}
    return {"metadata": {"name": "w", "annotations": annotations or {}}, "spec": {"podSets": [pod_set]}}


ASKED = "spec.podSets[0].topologyRequest"


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(
            workload(required=RACK, relaxAfterSeconds=5, constraints=[{"level": "node", "max": 2}]), [], id="good"
        ),
        pytest.param(
            workload(constraints=[{"level": "rack", "type": "spread", "partitions": 5}]),
            [
                f'{ASKED}.constraints[rack].partitions: Invalid value: 5: contradicts the size of pod set "main": 4 pod(s)'
            ],
            id="more-partitions-than-pods",
        ),
        pytest.param(
            workload(constraints=[{"level": RACK}, {"level": "rack"}]),
            [f'{ASKED}.constraints[rack]: Invalid value: "rack": names the same level as "{RACK}"'],
            id="level-twice",
        ),
        pytest.param(
            workload(required=RACK, podSetGroupName="g", constraints=[{"level": "rack"}]),
            [f"{ASKED}.constraints: Forbidden: may not be set when podSetGroupName is specified"],
            id="in-a-group",
        ),
        pytest.param(
            workload(preferred=RACK, relaxAfterSeconds=5),
            [f"{ASKED}.relaxAfterSeconds: Forbidden: may not be set when required is not specified"],
            id="nothing-to-relax",
        ),
        pytest.param(
            workload({PROFILE: "Best"}),
            [f'{ON_JOB}[{PROFILE}]: Unsupported value: "Best": supported values: "Compatible", "Exact", "LeastFree"'],
            id="no-such-profile",
        ),
    ],
)
def test_workload(value: dict[str, Any], want: list[str]) -> None:
    assert lines(workloads.validate_create(value, RULES)) == want


def test_cluster_queue() -> None:
    queue = {"metadata": {"name": "q", "annotations": {PROFILE: "Best"}}, "spec": {}}
    want = [f'{ON_JOB}[{PROFILE}]: Unsupported value: "Best": supported values: "Compatible", "Exact", "LeastFree"']
    assert lines(queues.validate_cluster_queue(queue, RULES)) == want
    assert lines(queues.validate_cluster_queue_update(queue, queue, RULES)) == want


def test_a_queue_with_an_unreadable_budget_of_moves_is_refused() -> None:
    queue = {"metadata": {"name": "q", "annotations": {names.MOVES_PER_DAY: "-1"}}, "spec": {}}
    want = [f'{ON_JOB}[{names.MOVES_PER_DAY}]: Invalid value: "-1": must be a whole number from 0 to 100000']
    assert lines(queues.validate_cluster_queue(queue, RULES)) == want


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param("true", [], id="asked-for"),
        pytest.param("false", [], id="done-without"),
        pytest.param(
            "yes",
            [f'{ON_JOB}[{names.BACKFILL}]: Unsupported value: "yes": supported values: "false", "true"'],
            id="neither",
        ),
    ],
)
@pytest.mark.parametrize("key", [names.BACKFILL, names.BACKFILL_LEARNED])
def test_backfill_of_a_queue(key: str, value: str, want: list[str]) -> None:
    want = [line.replace(names.BACKFILL, key) for line in want]
    queue = {"metadata": {"name": "q", "annotations": {key: value}}, "spec": {}}
    assert lines(queues.validate_cluster_queue(queue, RULES)) == want
    assert lines(queues.validate_cluster_queue_update({"spec": {}}, queue, RULES)) == want


# ---- placement groups by profile

PAIR = {names.REQUIRED_TOPOLOGY: RACK, names.PODSET_GROUP_NAME: "g"}


@pytest.mark.parametrize("profile", names.PROFILES)
@pytest.mark.parametrize(
    ("sizes", "by_exact", "by_others"),
    [
        pytest.param((1, 4), "", "", id="leader-and-workers"),
        pytest.param((2, 4), "", "only 1 replica", id="no-leader"),
        pytest.param((1, 4, 4), "", "exactly 2 pod sets", id="three"),
        pytest.param((4,), "at least 2 pod sets", "exactly 2 pod sets", id="alone"),
    ],
)
def test_only_exact_knows_groups_of_any_size(
    sizes: tuple[int, ...], by_exact: str, by_others: str, profile: str
) -> None:
    given = jobset({}, **{f"p{i}": (1, size, PAIR) for i, size in enumerate(sizes)})
    errors = lines(validate_create(given, JOBSET, replace(RULES, profile=profile)))
    want = by_exact if profile == names.EXACT else by_others
    assert bool(errors) is bool(want)
    assert all(want in line for line in errors)


def test_members_of_a_large_group_ask_for_the_same() -> None:
    other = {names.REQUIRED_TOPOLOGY: BLOCK, names.PODSET_GROUP_NAME: "g"}
    errors = lines(validate_create(jobset({}, a=(1, 2, PAIR), b=(1, 2, PAIR), c=(1, 2, other)), JOBSET, RULES))
    assert len(errors) == 2
    assert all("consistent with" in line for line in errors)


def test_members_of_a_pair_relax_together() -> None:
    given = jobset({}, a=(1, 1, {**PAIR, RELAX: "10m"}), b=(1, 2, PAIR))
    assert len(lines(validate_create(given, JOBSET, RULES))) == 2


def test_the_profile_is_the_jobs_else_its_queues_else_the_settings() -> None:
    known = lookups(RACK)
    own = job(annotations={PROFILE: names.LEAST_FREE})
    assert with_profile(RULES, job(), "ns", known).exact
    queue = known.cluster_queues["cq"]
    metadata = queue.metadata.model_copy(update={"annotations": {PROFILE: names.COMPATIBLE}})
    known = replace(known, cluster_queues={"cq": queue.model_copy(update={"metadata": metadata})})
    assert with_profile(RULES, job(), "ns", known).profile == names.COMPATIBLE
    assert with_profile(RULES, own, "ns", known).profile == names.LEAST_FREE


# ---- the samples

SAMPLES = Path(__file__).resolve().parents[4] / "config" / "samples"
JOBS_OF_SAMPLES = [
    pytest.param(each, id=path.stem)
    for path in sorted(SAMPLES.glob("job*.yaml"))
    for each in yaml.safe_load_all(path.read_text())
    if each["kind"] in ("Job", "JobSet")
]


@pytest.mark.parametrize("value", JOBS_OF_SAMPLES)
def test_samples_are_taken_and_their_pods_gated(value: dict[str, Any]) -> None:
    kind = JOBSET if value["kind"] == "JobSet" else JOB
    assert lines(validate_create(value, kind, RULES)) == []
    set_defaults(value, "default", kind, lookups(RACK), RULES)
    gates = [template.body["spec"]["schedulingGates"] for template in kind.templates(value)]
    assert gates == [[{"name": names.TOPOLOGY_GATE}]] * len(gates)


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_webhook_and_engine_go_by_the_same_setting_of_slices_at_several_levels(on: bool) -> None:
    """With `placement.multiLayer` off the engine would place the outermost slices alone."""
    settings = AdmissionSettings(placement={"multiLayer": on})
    world = rules_of(settings)
    layers = '[{"topology": "b", "size": 4}, {"topology": "r", "size": 2}]'
    given = job(template={names.REQUIRED_TOPOLOGY: BLOCK, names.SLICE_CONSTRAINTS: layers})
    given["spec"].update(parallelism=8, completions=8)
    refused = any(names.SLICE_CONSTRAINTS in line for line in lines(validate_create(given, JOB, world.webhook)))
    assert (refused, world.placement.multi_layer) == (not on, on)
    assert webhook_rules(settings).placement == world.placement == settings.placement.options()
