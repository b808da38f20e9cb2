"""Metrics of the forecasts of starts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

SECONDS = Histogram("stowage_forecast_seconds", "Seconds to forecast the starts of all waiting workloads.")
HELD = Gauge(
    "stowage_forecast_held_ratio",
    "Part of the last workloads (at most 400) that started within the interval that they were told first.",
)
LEARNED_KINDS = Gauge("stowage_forecast_kinds", "Kinds of workloads with learned run times.")
RUN_TIME_ERRORS = Counter(
    "stowage_run_time_errors",
    "Failures to read or write the ConfigMap of learned run times, by operation; also records in it that were left out.",
    ("operation",),
)
for _operation in ("read", "write"):
    RUN_TIME_ERRORS.labels(_operation)
