"""Metrics of the ungater, under the names that existing dashboards read."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

# 1, 2.5, 5, then doubling: the peer's buckets for waiting times, with finer ones below a second for small jobs
_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, *(10 * 2**n for n in range(11)))

GATE_REMOVAL = Histogram(
    "kueue_pod_scheduling_gate_removal_seconds",
    "From the later of admission and pod creation to the removal of the pod's gate.",
    ("name", "cluster_queue", "is_group"),
    buckets=_BUCKETS,
)
OPENINGS = Counter("stowage_ungater_openings", "Patches that open a gate, by outcome.", ("outcome",))
