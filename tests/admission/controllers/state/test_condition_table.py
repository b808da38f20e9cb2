"""Who writes a Workload's status: one module sends it, few ask for it, and each condition has the writers of the table.

The controller logs an error for a write that the table does not allow, and no scenario may log one.
"""

from __future__ import annotations

import ast
import inspect
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from admission.controllers.state.condition_table import ROWS, STATES, Writer, state_of, strangers
from admission.controllers.write.status import patch_status
from api.kube.client import Kube
from api.names import (
    ADMITTED,
    EVICTED,
    EXPLANATION,
    FINISHED,
    PODS_READY,
    QUOTA_RESERVED,
    UNSCHEDULABLE,
)
from api.names import conditions as condition_names
from api.workloads import Workload, WorkloadStatus
from hack.reference import meanings
from tests.builders import condition

PROJECT = Path(__file__).resolve().parents[4]
WRITE = PROJECT / "admission" / "controllers" / "write"
MODULES = {
    file: ast.parse(text)
    for top in ("admission", "ungater")
    for file in sorted((PROJECT / top).rglob("*.py"))
    if "WORKLOADS" in (text := file.read_text()) or "Writer." in text or "patch_status" in text
}


def name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def calls(module: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(module) if isinstance(node, ast.Call))


def sends_status(call: ast.Call) -> bool:
    """Whether the call sends the status of a Workload, or of a resource that only the running program knows."""
    words = {word.arg: word.value for word in call.keywords}
    status = isinstance(words.get("subresource"), ast.Constant)
    resource = name_of(call.args[0]) if call.args else ""
    return status and (resource == "WORKLOADS" or not resource.isupper())


def test_one_module_sends_the_status_of_workloads() -> None:
    """Modules that send the status of other kinds know Workloads not at all, or name the kind at the call."""
    assert [file for file, module in MODULES.items() if any(map(sends_status, calls(module)))] == [WRITE / "status.py"]


def test_few_modules_ask_for_a_write_of_a_status() -> None:
    asking = [
        file for file, module in MODULES.items() if any(name_of(call.func) == "patch_status" for call in calls(module))
    ]
    assert {file.parent for file in asking} == {WRITE}
    assert len(asking) <= 6


def test_each_writer_has_its_module_and_no_module_writes_in_two_names() -> None:
    named = {
        file: {
            node.attr
            for node in ast.walk(module)
            if isinstance(node, ast.Attribute) and name_of(node.value) == "Writer"
        }
        for file, module in MODULES.items()
        if file.name != "condition_table.py"
    }
    assert [file for file, writers in named.items() if len(writers) > 1] == []
    assert set().union(*named.values()) == {each.name for each in Writer}


def test_the_table_has_each_condition_of_workloads() -> None:
    described = meanings(ast.parse(inspect.getsource(condition_names)))
    types = {
        getattr(condition_names, key)
        for (title, key), text in described.items()
        if not title and "On Workloads" in text
    }
    assert len(types) > 20
    assert set(ROWS) == types


def test_every_state_but_the_last_leads_on() -> None:
    assert set().union(*(set(following) for following in STATES.values())) == {*STATES, FINISHED}


RESERVED = (condition(QUOTA_RESERVED),)
RUNS = (*RESERVED, condition(ADMITTED))
STUCK = (*RUNS, condition(UNSCHEDULABLE))


@pytest.mark.parametrize(
    ("before", "after", "by", "faults"),
    [
        pytest.param((), RUNS, Writer.SCHEDULER, [], id="admitted"),
        pytest.param(RUNS, STUCK, Writer.UNBOUND_PODS, [], id="reported"),
        pytest.param(STUCK, RUNS, Writer.LIFECYCLE, [], id="ended"),
        pytest.param(RUNS, STUCK, Writer.JOBS, [f"jobs sets {UNSCHEDULABLE}"], id="another sets it"),
        pytest.param(STUCK, RUNS, Writer.SPARE_HOSTS, [f"spare hosts clears {UNSCHEDULABLE}"], id="another removes it"),
        pytest.param(
            STUCK,
            (*RUNS, condition(UNSCHEDULABLE, "False")),
            Writer.SPARE_HOSTS,
            [f"spare hosts clears {UNSCHEDULABLE}"],
            id="another turns it off",
        ),
        pytest.param(
            (condition(FINISHED),),
            (),
            Writer.JOBS,
            ["jobs clears Finished", "jobs leads from Finished to Waiting"],
            id="nothing follows the end",
        ),
        pytest.param(
            RESERVED, RUNS, Writer.JOBS, ["jobs sets Admitted", "jobs leads from QuotaReserved to Admitted"], id="led"
        ),
        pytest.param((condition("example.com/Other"),), (), Writer.JOBS, [], id="not ours"),
    ],
)
def test_the_table_tells_what_a_writer_may_not_do(before: Any, after: Any, by: Writer, faults: list[str]) -> None:
    old, new = (WorkloadStatus.from_wire({"conditions": list(conditions)}) for conditions in (before, after))
    assert strangers(old.conditions, new.conditions, by) == faults


def test_the_condition_that_matters_most_names_the_state() -> None:
    everything = [condition(kind) for kind in (PODS_READY, QUOTA_RESERVED, ADMITTED, EVICTED, EXPLANATION)]
    assert state_of(WorkloadStatus.from_wire({"conditions": everything}).conditions) == EVICTED


class Answering:
    """Stands for the client: the API server takes every write."""

    async def patch(self, *_: Any, **__: Any) -> Workload:
        return Workload.from_wire({"metadata": {"name": "wl", "namespace": "ns"}, "spec": {}})


async def test_a_write_that_the_table_does_not_allow_is_made_and_logged_as_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A defect of the controller: the Workload gets its status, and the log says who did what."""
    workload = Workload.from_wire({"metadata": {"name": "wl", "namespace": "ns"}, "spec": {}})
    stuck = WorkloadStatus.from_wire({"conditions": list(STUCK)})
    with caplog.at_level(logging.ERROR):
        await patch_status(cast("Kube", Answering()), workload, stuck, Writer.UNBOUND_PODS)
    assert "unbound pods sets Admitted" in str([vars(record) for record in caplog.records])
