"""Metrics of moves."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from api.kube.owned_series import owned

MOVES = owned(
    Counter,
    "stowage_moves",
    "Running workloads that were given another place so that others fit, by ClusterQueue and outcome of the write.",
    ("cluster_queue", "outcome"),
)
LOSS = owned(
    Counter,
    "stowage_move_lost_device_seconds",
    "Device-seconds of work that workloads lost because they were given another place, by ClusterQueue.",
    ("cluster_queue",),
)
PLANS = Counter(
    "stowage_move_plans",
    "Plans of moves, by result: Started, Done, Changed (the cluster changed first), or why there was none.",
    ("result",),
)
PLAN_SECONDS = Histogram(
    "stowage_move_plan_seconds", "Seconds of computation of one plan of moves.", buckets=(0.01, 0.05, 0.1, 0.5, 1, 5)
)
