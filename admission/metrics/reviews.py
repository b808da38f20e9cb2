"""Metrics of the webhook process."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter

REVIEWS: Final = Counter(
    "stowage_reviews_total",
    "Reviews by path and outcome: allowed, denied, busy (denied with status 429), malformed, failed.",
    ("path", "outcome"),
)


def count_review(path: str, outcome: str) -> None:
    """Counts a review. `path` must be one of endpoints.PATHS, which bounds the number of series."""
    REVIEWS.labels(path, outcome).inc()
