"""Metrics of the controller, with the names that Kueue's dashboards query; set from the reports of cycles."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from api.kube.owned_series import owned

ATTEMPTS = Counter("kueue_admission_attempts", "Admission cycles, by result.", ("result",))
ATTEMPT_SECONDS = Histogram("kueue_admission_attempt_duration_seconds", "Seconds of an admission cycle.", ("result",))
DECISION_SECONDS = Histogram(
    "stowage_decision_seconds",
    "Seconds of an admission cycle, divided by the workloads that it decided on.",
    buckets=(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1),
)
CYCLE_CPU = Counter("stowage_cycle_cpu_seconds", "CPU seconds spent in admission cycles.")
DECISIONS = Counter("stowage_decisions", "Decisions of cycles on workloads, by kind.", ("kind",))
UNDECIDED = Counter("stowage_undecided", "Workloads that a cycle failed to decide on because of an internal error.")
REPEATED_PREEMPTIONS = owned(
    Counter,
    "stowage_repeated_preemptions",
    "Workloads that had to wait because they had evicted the same victim twice within ten minutes.",
    ("cluster_queue",),
)
LEDGER_DIFFERENCES = Gauge(
    "stowage_ledger_differences", "Differences that the last audit of the ledger found; must be 0."
)
LOST_WAKE_UPS = Counter(
    "stowage_lost_wake_ups",
    "Workloads that waited although they could start, until a fresh look found them; each is a defect.",
)
WRITES = Counter("stowage_admission_writes", "Admissions written to the API server, by outcome.", ("outcome",))
WRITES.labels("failed")  # from 0: where a series begins with its first event, Prometheus sees no increase
UNSCHEDULABLE = owned(
    Counter,
    "stowage_pods_unschedulable_after_gate",
    "Pods that the scheduler found Unschedulable after their gate was opened.",
    ("cluster_queue",),
)
NOT_CREATED = owned(
    Counter,
    "stowage_workloads_not_created",
    "Admitted workloads of which the API server began to refuse pods.",
    ("cluster_queue",),
)
SURPLUS_PODS = owned(
    Counter,
    "stowage_surplus_pods_ended",
    "Pods that ran beyond what was admitted, and were ended.",
    ("cluster_queue",),
)
EXPLAIN_SECONDS = Histogram("stowage_explain_seconds", "Seconds to compute why a workload waits.", ("verdict",))
