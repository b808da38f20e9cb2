"""Random placements answered by Kueue; the form is that of `tas_find_topology_assignments`."""

from __future__ import annotations

from tests.conformance.suites.tas_find_topology_assignments import run

__all__ = ["run"]
