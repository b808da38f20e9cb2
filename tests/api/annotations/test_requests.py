"""What the annotations of a job and of its templates come to."""

from __future__ import annotations

from typing import Any

import pytest

from api import names
from api.annotations.requests import asks_for_topology, effective_annotations, is_auto, topology_request
from api.errors import InvalidObject

BLOCK, RACK = "cloud.com/block", "cloud.com/rack"


@pytest.mark.parametrize(
    ("template", "job", "want"),
    [
        pytest.param({}, {}, None, id="nothing"),
        pytest.param({}, {names.REQUIRE_TOPOLOGY: BLOCK}, {"required": BLOCK}, id="job-requires"),
        pytest.param({}, {names.PREFER_TOPOLOGY: RACK}, {"preferred": RACK}, id="job-prefers"),
        pytest.param({}, {names.PREFER_TOPOLOGY: "auto"}, {"preferred": "auto"}, id="job-prefers-auto"),
        pytest.param({names.REQUIRE_TOPOLOGY: RACK}, {}, {"required": RACK}, id="template-first-form"),
        pytest.param(
            {names.PREFER_TOPOLOGY: RACK}, {names.REQUIRE_TOPOLOGY: BLOCK}, {"preferred": RACK}, id="template-wins"
        ),
        pytest.param(
            {names.UNCONSTRAINED_TOPOLOGY: "true"},
            {names.REQUIRE_TOPOLOGY: BLOCK},
            {"unconstrained": True},
            id="template-wins-current-form",
        ),
        pytest.param(
            {names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "4"},
            {names.REQUIRE_TOPOLOGY: BLOCK},
            {"required": BLOCK, "podSetSliceRequiredTopology": RACK, "podSetSliceSize": 4},
            id="slices-refine-the-jobs-request",
        ),
        pytest.param({}, {names.REQUIRED_TOPOLOGY: BLOCK}, None, id="current-form-is-for-templates-only"),
        pytest.param(
            {names.PODSET_GROUP_NAME: "g"},
            {names.REQUIRE_TOPOLOGY: BLOCK},
            {"required": BLOCK, "podSetGroupName": "g"},
            id="group-with-the-jobs-level",
        ),
        pytest.param(
            {names.PLACEMENT_CONSTRAINTS: '{"rack": {"factor": 2}}'},
            {},
            {"constraints": [{"level": "rack", "factor": 2}]},
            id="constraints-alone-ask-for-topology",
        ),
        pytest.param(
            {names.PLACEMENT_CONSTRAINTS: '{"rack": {"factor": 2}}'},
            {names.REQUIRE_TOPOLOGY: BLOCK, names.PLACEMENT_CONSTRAINTS: '{"rack": {"factor": 3}}'},
            {"required": BLOCK, "constraints": [{"level": "rack", "factor": 2}]},
            id="the-templates-own-constraints-win",
        ),
        pytest.param(
            {names.REQUIRED_TOPOLOGY: RACK},
            {names.PLACEMENT_CONSTRAINTS: '{"rack": {"hard": true}}', names.RELAX_TOPOLOGY_AFTER: "10m"},
            {"required": RACK, "constraints": [{"level": "rack", "hard": True}], "relaxAfterSeconds": 600},
            id="a-job-refines-what-its-templates-ask",
        ),
        pytest.param(
            {names.PREFERRED_TOPOLOGY: RACK},
            {names.REQUIRE_TOPOLOGY: BLOCK, names.RELAX_TOPOLOGY_AFTER: "10m"},
            {"preferred": RACK},
            id="what-is-only-preferred-needs-no-relaxation",
        ),
    ],
)
def test_request(template: dict[str, str], job: dict[str, str], want: dict[str, Any] | None) -> None:
    request = topology_request(template, job_annotations=job)
    assert (request.to_wire() if request else None) == want
    assert asks_for_topology(template, job) is (want is not None)


def test_an_index_label_alone_asks_for_nothing() -> None:
    request = topology_request(None, pod_index_label=names.JOB_COMPLETION_INDEX)
    assert request is not None
    assert not request.explicit


def test_auto_is_kept_for_the_code_that_knows_the_levels() -> None:
    request = topology_request({}, job_annotations={names.PREFER_TOPOLOGY: names.AUTO_LEVEL})
    assert request is not None
    assert is_auto(request)


def test_effective_annotations_leave_the_others_alone() -> None:
    template = {"a": "b", names.REQUIRE_TOPOLOGY: RACK}
    assert effective_annotations(template) == {"a": "b", names.REQUIRED_TOPOLOGY: RACK}
    assert names.REQUIRE_TOPOLOGY in template


@pytest.mark.parametrize(
    ("annotations", "field"),
    [
        pytest.param({names.UNCONSTRAINED_TOPOLOGY: "yes"}, names.UNCONSTRAINED_TOPOLOGY, id="bool"),
        pytest.param({names.PLACEMENT_CONSTRAINTS: "["}, names.PLACEMENT_CONSTRAINTS, id="constraints"),
        pytest.param(
            {names.REQUIRED_TOPOLOGY: RACK, names.RELAX_TOPOLOGY_AFTER: "soon"}, names.RELAX_TOPOLOGY_AFTER, id="period"
        ),
        pytest.param(
            {names.REQUIRED_TOPOLOGY: RACK, names.RELAX_TOPOLOGY_AFTER: "500ms"}, names.RELAX_TOPOLOGY_AFTER, id="short"
        ),
        pytest.param({names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "4 "}, names.SLICE_SIZE, id="int"),
        pytest.param(
            {names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "2147483648"}, names.SLICE_SIZE, id="int32"
        ),
        pytest.param(
            {names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "9" * 5000}, names.SLICE_SIZE, id="endless"
        ),
        pytest.param({names.SLICE_CONSTRAINTS: "{}"}, names.SLICE_CONSTRAINTS, id="json-object"),
        pytest.param({names.SLICE_CONSTRAINTS: "null"}, names.SLICE_CONSTRAINTS, id="no-layers"),
    ],
)
def test_unreadable(annotations: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidObject) as bad:
        topology_request(annotations)
    assert bad.value.field == f"metadata.annotations[{field}]"
    assert bad.value.given == annotations[field]
    assert not asks_for_topology(annotations)
