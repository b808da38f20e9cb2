"""Prometheus metrics of API access, in the default registry. Other modules of this package set them; health.py serves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar
from weakref import ref

from prometheus_client import Counter, Gauge, Histogram

from api.kube.owned_series import owned

_Owner = TypeVar("_Owner")


def asked(gauge: Gauge, owner: _Owner, value: Callable[[_Owner], float]) -> None:
    """Makes the gauge ask its owner at a scrape, since events come far more often. It does not keep the owner alive."""
    reference = ref(owner)

    def now() -> float:
        living = reference()
        return 0.0 if living is None else value(living)

    gauge.set_function(now)


REQUESTS: Final = Counter(
    "stowage_api_requests_total",
    "Requests to the API server, counting each attempt; code 0 means no response.",
    ("verb", "resource", "code"),
)
REQUEST_SECONDS: Final = Histogram(
    "stowage_api_request_seconds",
    "Seconds of requests to the API server, without watches.",
    ("verb", "resource"),
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
RETRIES: Final = Counter("stowage_api_retries_total", "Retried requests to the API server.", ("verb", "resource"))

# `selection` is the informer's namespace and selectors, empty for all objects; a resource may have several informers.
INFORMER_OBJECTS: Final = Gauge(
    "stowage_informer_objects", "Objects in an informer's cache.", ("resource", "selection")
)
INFORMER_VERSION: Final = Gauge(
    "stowage_informer_resource_version",
    "The resourceVersion of an informer's cache; bookmarks advance it without changes.",
    ("resource", "selection"),
)
INFORMER_HEARD: Final = Gauge(
    "stowage_informer_last_event_timestamp_seconds",
    "When an informer's watch last delivered a change or a bookmark, or a watch of events ended in order, in epoch seconds.",
    ("resource", "selection"),
)
WATCH_LAG: Final = Histogram(
    "stowage_watch_lag_seconds",
    "Seconds from the response to one of our own writes until the watch delivers it.",
    ("resource",),
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
INFORMER_EVENTS: Final = Counter("stowage_informer_events_total", "Changes passed to handlers.", ("resource", "type"))
INFORMER_LISTS: Final = Counter("stowage_informer_lists_total", "Complete lists.", ("resource",))
INFORMER_FAILURES: Final = Counter(
    "stowage_informer_failures_total", "Failed lists and watches, by the error's name.", ("resource", "error")
)
INFORMER_UNDECODABLE: Final = Counter(
    "stowage_informer_undecodable_total", "Objects that were left out because they did not decode.", ("resource",)
)
HANDLER_ERRORS: Final = Counter("stowage_informer_handler_errors_total", "Exceptions in handlers.", ("resource",))

QUEUE_DEPTH: Final = Gauge("stowage_queue_depth", "Keys that wait for a worker.", ("queue",))
QUEUE_SECONDS: Final = Histogram(
    "stowage_queue_seconds", "Seconds from when a key was due until a worker took it.", ("queue",)
)
RECONCILE_SECONDS: Final = Histogram("stowage_reconcile_seconds", "Seconds of one reconcile.", ("queue",))
RECONCILE_ERRORS: Final = Counter(
    "stowage_reconcile_errors_total", "Failed reconciles, by the error's name.", ("queue", "error")
)

EVENTS_SENT: Final = Counter("stowage_events_sent_total", "Events written.", ("component",))
EVENTS_DROPPED: Final = Counter("stowage_events_dropped_total", "Dropped events, by reason.", ("component", "why"))

# Up to the Lease's duration. A step that blocks the loop for more than 50 ms is a defect.
_LAGS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
LOOP_LAG: Final = Histogram(
    "stowage_loop_lag_seconds",
    "Delay of a timer of the event loop in seconds, measured twice a second, twenty times while the process works.",
    buckets=_LAGS,
)
LOOP_HELD: Final = Histogram(
    "stowage_loop_held_seconds",
    "The part of stowage_loop_lag_seconds that the process itself can have caused; other processes caused the rest.",
    buckets=_LAGS,
)

LONG_STEPS: Final = Histogram(
    "stowage_loop_step_seconds",
    "CPU seconds of a step of the event loop, of those that took 10 ms or more. More than 50 ms is a defect.",
    buckets=(0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
COLLECTIONS: Final = Histogram(
    "stowage_garbage_collection_seconds",
    "CPU seconds of a garbage collection, during which nothing else runs, by Python's generation but the youngest.",
    ("generation",),
    buckets=_LAGS,
)

TASKS: Final = Gauge("stowage_tasks", "Tasks of the event loop that have not ended.")

LEADER: Final = Gauge("stowage_leader", "1 while this process holds the Lease.", ("lease",))

# 1, 2.5, 5, then doubling: Kueue's buckets for waiting times, with finer ones below a second for small jobs
_WAITING = (0.1, 0.25, 0.5, 1, 2.5, 5, *(10 * 2**n for n in range(11)))

GATE_REMOVAL = owned(
    Histogram,
    "kueue_pod_scheduling_gate_removal_seconds",
    "Seconds from the later of admission and pod creation to the removal of the pod's gate.",
    ("name", "cluster_queue", "is_group"),
    buckets=_WAITING,
)
