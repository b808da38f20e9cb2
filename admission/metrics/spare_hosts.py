"""Metrics of hosts that are kept free for pods that lose theirs; set after each cycle."""

from __future__ import annotations

from prometheus_client import Gauge

OF_WORKLOADS = Gauge(
    "stowage_spare_hosts",
    "Spare hosts requested by running workloads, by state: held or lacking.",
    ("state",),
)
OF_FLAVORS = Gauge(
    "stowage_flavor_spare_hosts",
    "Spare hosts of each ResourceFlavor that has a rule for them, by state: held or lacking.",
    ("flavor", "state"),
)
