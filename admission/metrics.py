"""Metrics of the controller, with the names that Kueue's dashboards query; set from the reports of cycles."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from api.kube.owned_series import owned

# 1, 2.5, 5, 10, then doubling, 14 in all: Kueue's buckets for waiting times
_WAIT = (1, 2.5, 5, *(10 * 2**n for n in range(11)))

ATTEMPTS = Counter("kueue_admission_attempts", "Admission cycles, by result.", ("result",))
ATTEMPT_SECONDS = Histogram("kueue_admission_attempt_duration_seconds", "Duration of a cycle.", ("result",))
CYCLE_CPU = Counter("stowage_cycle_cpu_seconds", "Processor time spent in admission cycles.")
DECISIONS = Counter("stowage_decisions", "What cycles decided on workloads, by kind.", ("kind",))
UNDECIDED = Counter("stowage_undecided", "How often a cycle failed to decide on a workload, by a fault of ours.")
SPARE_HOSTS = Gauge(
    "stowage_spare_hosts",
    "Hosts that are held for running workloads that asked for spare ones, and lacking.",
    ("state",),
)
REPEATED_PREEMPTIONS = owned(
    Counter,
    "stowage_repeated_preemptions",
    "How often a workload had to wait since it had the same one evicted twice within ten minutes.",
    ("cluster_queue",),
)
QUOTA_RESERVED = owned(
    Counter, "kueue_quota_reserved_workloads", "Workloads that got quota.", ("cluster_queue", "priority_class")
)
ADMITTED = owned(Counter, "kueue_admitted_workloads", "Workloads admitted.", ("cluster_queue", "priority_class"))
EVICTED = owned(
    Counter,
    "kueue_evicted_workloads",
    "Workloads evicted.",
    ("cluster_queue", "reason", "underlying_cause", "priority_class"),
)
EVICTED_ONCE = owned(
    Counter,
    "kueue_evicted_workloads_once",
    "Workloads evicted for this reason and cause for the first time.",
    ("cluster_queue", "reason", "underlying_cause", "priority_class"),
)
PREEMPTED = owned(
    Counter,
    "kueue_preempted_workloads",
    "Workloads evicted for others.",
    ("preempting_cluster_queue", "reason"),
)
WAIT_SECONDS = owned(
    Histogram,
    "kueue_quota_reserved_wait_time_seconds",
    "From queueing to the reservation.",
    ("cluster_queue", "priority_class"),
    buckets=_WAIT,
)
LEDGER_DIFFERENCES = Gauge("stowage_ledger_differences", "What the last audit of the ledger found; must be 0.")
WRITES = Counter("stowage_admission_writes", "Admissions written to the API server, by outcome.", ("outcome",))
UNSCHEDULABLE = owned(
    Counter,
    "stowage_pods_unschedulable_after_gate",
    "Pods that the scheduler found Unschedulable after their gate was opened.",
    ("cluster_queue",),
)
EXPLAIN_SECONDS = Histogram("stowage_explain_seconds", "Working out why a workload waits.", ("verdict",))
