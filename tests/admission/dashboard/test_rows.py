"""The list of Workloads: what a row says, and that it is sorted only after a change."""

from __future__ import annotations

from typing import Any

import pytest

from admission.dashboard import rows
from api.kube.resources import WORKLOADS
from tests.admission.dashboard.small_cluster import RACK, Served, owner, served
from tests.builders import condition, workload

HINT = "no rack has room; would be admitted if team/train ended"


def explained(dashboard: Served, name: str, *conditions: dict[str, Any]) -> None:
    """Adds a Workload that waits and that the controller explained."""
    waits = condition("QuotaReserved", "False", "TopologyPlacementFailed", "no room")
    told = condition("stowage.dev/Explanation", "True", "TopologyPlacementFailed", HINT)
    wire = workload(
        name, queue="lq", count=8, conditions=[waits, told, *conditions], topology_request={"required": RACK}
    ).to_wire()
    wire["metadata"] |= {"namespace": "team", "ownerReferences": [owner(name)]}
    dashboard.cluster.add(WORKLOADS, wire)


async def listed(dashboard: Served) -> dict[str, dict[str, Any]]:
    await dashboard.dashboard.renew()
    return {row["name"]: row for row in (await dashboard.get("workloads?namespace=team"))["items"]}


async def test_a_waiting_row_has_the_controllers_hint() -> None:
    async with served() as found:
        explained(found, "hinted")
        explained(found, "over", condition("Finished", "True", "JobFinished", "done"))
        hints = {name: row["hint"] for name, row in (await listed(found)).items()}
        assert hints == {"hinted": HINT, "later": "", "train": ""}
        assert (await found.get("workloads/team/hinted"))["hint"] == HINT
        assert (await found.get("workloads?state=Finished"))["items"][0]["hint"] == ""


TOLD = "expected to start between 2026-01-01T10:00:00Z and 2026-01-01T10:40:00Z, with 90% confidence"
FIRST, LATEST = "2026-01-01T10:00:00Z", "2026-01-01T10:40:00Z"
EARLIEST_ONLY = "expected to start at 2026-01-01T10:00:00Z or later; no latest start is known"
RESERVED = "no quota; expected to start at 2026-01-01T11:00:00Z or before"
BEHIND = "would delay team/a, which comes before it and is expected to start at 2026-01-01T09:00:00Z or before"


@pytest.mark.parametrize(
    ("waits", "told", "expected", "earliest"),
    [
        pytest.param(
            "no quota", TOLD, LATEST, FIRST, id="the interval of the forecast: its latest start of the forecast"
        ),
        pytest.param(RESERVED, TOLD, "2026-01-01T11:00:00Z", None, id="a reserved start comes first"),
        pytest.param(BEHIND, "", None, None, id="not the start of the workload before it"),
        pytest.param(BEHIND, TOLD, LATEST, FIRST, id="its own forecast, not the start of the workload before it"),
        pytest.param("no quota", EARLIEST_ONLY, None, FIRST, id="no latest start is known"),
        pytest.param("no quota", f"{TOLD} <b>and more</b>", None, None, id="not the words of the forecaster"),
        pytest.param("no quota", TOLD.replace("0", "\u0660"), None, None, id="digits of another script"),
    ],
)
async def test_a_row_has_the_start_that_is_expected(
    waits: str, told: str, expected: str | None, earliest: str | None
) -> None:
    states = [condition("QuotaReserved", "False", "WaitingForQuota", waits)]
    states += [condition("stowage.dev/ExpectedStart", "True", "Forecast", told)] if told else []
    wire = workload("w", queue="lq", count=8, conditions=states).to_wire()
    wire["metadata"] |= {"namespace": "team"}
    async with served() as found:
        found.cluster.add(WORKLOADS, wire)
        row = (await listed(found))["w"]
        assert (row["earliestStart"], row["expectedStart"]) == (earliest, expected)
        entries = {one["name"]: one["expectedStart"] for one in (await found.get("forecast"))["items"]}
        assert entries == ({} if expected is None else {"w": expected})


async def test_a_running_row_has_owner_start_and_gpus() -> None:
    """What a list of running workloads needs to say whose GPU hours they are."""
    states = [condition("QuotaReserved"), condition("Admitted")]
    wire = workload("w", queue="lq", count=8, conditions=states).to_wire()
    wire["metadata"] |= {"namespace": "team", "ownerReferences": [owner("w")]}
    usage = {"cpu": "64", "nvidia.com/gpu": "48", "example.com/nic": "8"}
    assigned = {"name": "main", "count": 8, "flavors": {"cpu": "gpu"}, "resourceUsage": usage}
    wire["status"]["admission"] = {"clusterQueue": "cq", "podSetAssignments": [assigned]}
    wire["status"]["accumulatedPastExecutionTimeSeconds"] = 60
    async with served() as found:
        found.cluster.add(WORKLOADS, wire)
        rows_ = await listed(found)
        row = rows_["w"]
        assert (row["job"], row["gpus"], row["ranBefore"]) == ("Job w", 48, 60)
        assert row["started"] == row["since"] is not None
        assert (rows_["later"]["started"], rows_["later"]["gpus"]) == (None, 0)


REFUSED = "3 of 8 pods do not exist: exceeded quota: pods"


@pytest.mark.parametrize(
    ("state", "noted"),
    [
        pytest.param(
            ("PodsNotCreated", "True", "CreationRefused", REFUSED), True, id="pods that the API server refuses"
        ),
        pytest.param(("PodsNotCreated", "False", "Created", "all exist"), False, id="no longer"),
        pytest.param(("PodsUnschedulable", "True", "Unschedulable", "0/4 nodes"), True, id="pods that no node takes"),
        pytest.param(("PodsHeld", "True", "RankUnknown", "no rank"), True, id="pods behind their gate"),
        pytest.param(("Moving", "True", "PlaceHeld", "leaves b0/r1 for team/wide"), True, id="a move"),
        pytest.param(("Moving", "False", "Moved", "has left"), False, id="a move that was made"),
        pytest.param(("SpareHosts", "False", "TooFewHosts", "1 of 2 not held"), True, id="too few spare hosts"),
        pytest.param(("TopologyKept", "False", "NodesRelabelled", "n0 left r0"), True, id="nodes that were relabelled"),
    ],
)
async def test_an_admitted_row_says_what_its_pods_lack(state: tuple[str, str, str, str], noted: bool) -> None:
    """A job that is admitted and does not run must not look like one that runs."""
    kind, status, reason, message = state
    states = [condition("QuotaReserved", "True", "QuotaReserved"), condition("Admitted", "True", "Admitted")]
    states.append(condition(f"stowage.dev/{kind}", status, reason, message))
    over = [*states, condition("Finished", "True", "JobFinished", "done")]
    async with served() as found:
        for name, conditions in (("w", states), ("over", over)):
            wire = workload(name, queue="lq", count=8, conditions=conditions).to_wire()
            wire["metadata"] |= {"namespace": "team"}
            found.cluster.add(WORKLOADS, wire)
        expected = [{"type": kind, "reason": reason, "message": message}] if noted else []
        row = (await listed(found))["w"]
        assert (row["state"], row["notes"]) == ("Admitted", expected)
        assert (await found.get("workloads/team/w"))["notes"] == expected
        assert (await found.get("workloads/team/over"))["notes"] == []


async def test_the_list_is_sorted_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    order = rows._order

    def counting(row: rows.Row) -> Any:
        compared.append(row["name"])
        return order(row)

    monkeypatch.setattr(rows, "_order", counting)
    monkeypatch.setattr(rows, "_FRESH", 0.0)  # positions are looked at anew for each list
    async with served() as found:
        before = await listed(found)
        assert compared
        compared.clear()
        assert await listed(found) == before
        assert not compared
        found.cluster.wait("team", "lq", "another", 4)
        after = await listed(found)
        assert (after.keys() - before.keys(), bool(compared)) == ({"another"}, True)
        assert list(after) == ["another", "later", "train"]  # of one age: by name
        assert after["another"]["position"] == 1
