"""The list of Workloads: what a row says, and that it is sorted only after a change. Issue 20, lines 1 and 4."""

from __future__ import annotations

from typing import Any

import pytest

from admission.dashboard import rows
from api.kube.resources import WORKLOADS
from tests.admission.dashboard.small_cluster import RACK, Served, owner, served
from tests.builders import condition, workload

HINT = "no rack has room; would be admitted if team/train ended"


def explained(found: Served, name: str, *conditions: dict[str, Any]) -> None:
    """Adds a Workload that waits and that the controller explained."""
    waits = condition("QuotaReserved", "False", "TopologyPlacementFailed", "no room")
    told = condition("stowage.dev/Explanation", "True", "TopologyPlacementFailed", HINT)
    wire = workload(
        name, queue="lq", count=8, conditions=[waits, told, *conditions], topology_request={"required": RACK}
    ).to_wire()
    wire["metadata"] |= {"namespace": "team", "ownerReferences": [owner(name)]}
    found.cluster.add(WORKLOADS, wire)


async def listed(found: Served) -> dict[str, dict[str, Any]]:
    await found.dashboard.renew()
    return {row["name"]: row for row in (await found.get("workloads?namespace=team"))["items"]}


async def test_a_waiting_row_has_the_controllers_hint() -> None:
    async with served() as found:
        explained(found, "hinted")
        explained(found, "over", condition("Finished", "True", "JobFinished", "done"))
        hints = {name: row["hint"] for name, row in (await listed(found)).items()}
        assert hints == {"hinted": HINT, "later": "", "train": ""}
        assert (await found.get("workloads/team/hinted"))["hint"] == HINT
        assert (await found.get("workloads?state=Finished"))["items"][0]["hint"] == ""


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
