"""The expected starts of waiting Workloads, and their models."""

from __future__ import annotations

from typing import Any

from admission.dashboard.dashboard import Dashboard
from admission.dashboard.serve.answers import Answer
from admission.dashboard.viewer import Viewer


class ForecastEntry(Answer):
    """A waiting Workload whose start is reserved or forecast. `expected_start` is the latest start that is expected."""

    namespace: str
    name: str
    cluster_queue: str
    position: int | None
    expected_start: str


class Forecast(Answer):
    """The expected starts, soonest first."""

    items: list[ForecastEntry]


async def forecast(dashboard: Dashboard, viewer: Viewer) -> dict[str, Any]:
    """Returns a Forecast."""
    permissions = await dashboard.permissions(viewer)
    known = await dashboard.rows.selected(lambda row: bool(row["expectedStart"]) and permissions.sees(row["namespace"]))
    names = ("namespace", "name", "clusterQueue", "position", "expectedStart")
    items = [{name: row[name] for name in names} for row in known]
    return {"items": sorted(items, key=lambda item: (item["expectedStart"], item["namespace"], item["name"]))}
