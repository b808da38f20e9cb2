"""Metrics of the capacity of flavors and their domains; set by controllers/report/capacity_gauges.py, with the bounds stated
there."""

from __future__ import annotations

from prometheus_client import Gauge, Histogram

FLAVOR_CAPACITY = Gauge(
    "stowage_flavor_capacity",
    "Capacity of a flavor's nodes by what becomes of it: free, used, foreign, held or unusable.",
    ("flavor", "resource", "state"),
)
DOMAIN_CAPACITY = Gauge(
    "stowage_domain_capacity",
    "The same for each domain of a level that has at most metrics.domainLimit domains.",
    ("flavor", "level", "domain", "resource", "state"),
)
LARGEST_GANG = Gauge(
    "stowage_largest_gang_pods",
    "Pods of the largest gang that fits in one domain of the level now, for pods of a whole host or one unit of a resource.",
    ("flavor", "level", "pod"),
)
HIDDEN_DOMAINS = Gauge(
    "stowage_domains_without_series",
    "Domains of a level that has more than metrics.domainLimit, and so no stowage_domain_capacity.",
    ("flavor", "level"),
)
FIGURES_SECONDS = Histogram(
    "stowage_capacity_figures_seconds",
    "Seconds of the longest step in which one flavor's capacity was added up.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25),
)
