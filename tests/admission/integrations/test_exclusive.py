"""Exclusive placement is found wherever a job can ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from admission.integrations.declared.functions.trainjob import CLUSTER_RUNTIMES
from admission.integrations.declared.referenced import REFERENCED
from admission.integrations.exclusive import exclusive_annotations
from admission.integrations.paths import with_value
from api.names import JOBSET_EXCLUSIVE_TOPOLOGY

Obj = dict[str, Any]
ASKED = {JOBSET_EXCLUSIVE_TOPOLOGY: "rack", "example.com/other": "x"}
JOBSET: Obj = {"metadata": {}, "spec": {"replicatedJobs": [{"name": "w", "template": {"metadata": {}}}]}}
WRAPPER: Obj = {"metadata": {}, "spec": {"components": [{"template": JOBSET}]}}
CHILD = ("spec", "replicatedJobs", 0, "template")
WRAPPED = ("spec", "components", 0, "template")


@pytest.mark.parametrize(
    ("job", "place"),
    [
        pytest.param(JOBSET, ("metadata",), id="JobSet"),
        pytest.param(JOBSET, (*CHILD, "metadata"), id="child of a JobSet"),
        pytest.param(WRAPPER, (*WRAPPED, "metadata"), id="JobSet in an AppWrapper"),
        pytest.param(WRAPPER, (*WRAPPED, *CHILD, "metadata"), id="its child"),
    ],
)
def test_it_is_found_in_the_job_and_its_parts(job: Obj, place: tuple[str | int, ...]) -> None:
    assert exclusive_annotations(job) == {}
    assert exclusive_annotations(with_value(job, (*place, "annotations"), ASKED)) == {JOBSET_EXCLUSIVE_TOPOLOGY: "rack"}


@pytest.fixture
def runtimes() -> Iterator[dict[str, Obj]]:
    stored: dict[str, Obj] = {}
    before = REFERENCED.kept(CLUSTER_RUNTIMES)
    REFERENCED.keep(CLUSTER_RUNTIMES, stored)
    yield stored
    REFERENCED.keep(CLUSTER_RUNTIMES, before)


@pytest.mark.parametrize("place", [("metadata",), (*CHILD, "metadata")], ids=["JobSet", "child"])
def test_it_is_found_in_the_runtime_of_a_train_job(place: tuple[str | int, ...], runtimes: dict[str, Obj]) -> None:
    runtimes["r"] = {"spec": {"template": with_value(JOBSET, (*place, "annotations"), ASKED)}}
    assert exclusive_annotations({"metadata": {}}, (CLUSTER_RUNTIMES, "r")) == {JOBSET_EXCLUSIVE_TOPOLOGY: "rack"}
    assert exclusive_annotations({"metadata": {}}, (CLUSTER_RUNTIMES, "another")) == {}


@pytest.mark.parametrize("value", [None, 7, "text", [], [None], [{"template": 3}], {"a": 1}])
def test_what_is_malformed_asks_for_nothing(value: Any) -> None:
    for key in ("replicatedJobs", "components"):
        assert exclusive_annotations({"metadata": {"annotations": value}, "spec": {key: value}}) == {}
