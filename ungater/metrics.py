"""Metrics of the ungater, with the names that Kueue's dashboards query."""

from __future__ import annotations

from prometheus_client import Counter

from api.kube.metrics import GATE_REMOVAL

__all__ = ["GATE_REMOVAL", "OPENINGS"]

OPENINGS = Counter("stowage_ungater_openings", "Patches that open a gate, by outcome.", ("outcome",))
