"""Annotations to a pod set's topology request, and their validation; the observed errors are compared whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from admission.webhook.rules.annotations import slice_bound, template_annotations
from admission.webhook.rules.fields import OMIT, Errors, FieldPath
from api.annotations.requests import topology_request
from api.errors import InvalidObject
from api.topology_request import TopologyRequest
from tests.conformance import runner

# What stands behind "must be a valid JSON array: " is the JSON library's own wording.
_LIBRARY = "must be a valid JSON array: "


def run(case: dict[str, Any]) -> None:
    """TestPodSetTopologyRequestBuilder builds; the two TestValidate... count (and show) errors."""
    given = case["input"]
    if case["name"].startswith("TestPodSetTopologyRequestBuilder/"):
        _builds(given, case["want"])
        return
    path, annotations = FieldPath(given["replicaPath"]), given["annotations"]
    if "podSetCount" in given:
        errors = slice_bound(path, annotations, given["podSetCount"])
    else:
        errors = template_annotations(path, annotations, multi_layer=runner.gates(case)["TASMultiLayerTopology"])
    assert len(errors) == case["want"]["wantErrNum"], errors
    assert [_lines(e) for e in wire(errors)] == [_lines(e) for e in case["observed"]["errors"]]


def wire(errors: Errors) -> list[dict[str, Any]]:
    """Field errors in the form of the suites."""
    return [
        {
            "type": error.type.value,
            "field": error.field,
            "badValue": {} if error.bad_value is OMIT else error.bad_value,
            "detail": error.detail,
            "message": error.message,
        }
        for error in errors
    ]


def _lines(error: Mapping[str, Any]) -> tuple[Any, ...]:
    parts = (str(error["detail"]), str(error["message"]))
    kept = tuple(part.partition(_LIBRARY)[0] for part in parts)
    return (error["type"], error["field"], error["badValue"], *kept)


def _builds(value: dict[str, Any], want: dict[str, Any]) -> None:
    if want["wantErr"]:
        with pytest.raises(InvalidObject) as bad:
            _request(value)
        assert want["wantErr"]["error"] in str(bad.value)
        return
    request = _request(value)
    assert (request.to_wire() if request else None) == want["wantReq"]


def _request(value: dict[str, Any]) -> TopologyRequest | None:
    return topology_request(
        value["meta"].get("annotations"),
        pod_index_label=value.get("podIndexLabel"),
        sub_group_index_label=value.get("subGroupIndexLabel"),
        sub_group_count=value.get("subGroupCount"),
    )
