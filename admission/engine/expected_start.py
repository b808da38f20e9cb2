"""The words for the moment at which a waiting workload starts."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil


def rfc3339(start: float) -> str:
    """Returns a time (epoch seconds) in RFC 3339: whole seconds, rounded up."""
    return datetime.fromtimestamp(ceil(start), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def expected(start: float) -> str:
    """Returns the message for a workload whose start (epoch seconds) is reserved."""
    return f"expected to start at {rfc3339(start)} or before"
