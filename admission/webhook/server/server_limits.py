"""Limits on what clients of the webhook may use. server.py enforces them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from admission.serving.connection_limits import ConnectionLimits

BYTES_OF_A_VALUE: Final = 8


@dataclass(frozen=True, slots=True)
class ServerLimits(ConnectionLimits):
    """Limits on connections and on requests. Lengths are in bytes."""

    body: int = 3 * 1024 * 1024
    """Longest body of a review: etcd stores objects of up to 1.5 MiB, and an update carries two of them."""
    conversion: int = 64 * 1024 * 1024
    """Longest body of a conversion: the API server converts a whole list at once, thousands of objects of some kilobytes."""
    lists: int = 2
    """Conversions longer than `body` that are processed at once; others wait for at most `whole`."""
    values: int = 400_000
    """Most values in a body, counted by commas and brackets: twice a ConfigMap with a tree of 60,000 nodes. A long conversion
    may have one value for every `BYTES_OF_A_VALUE` bytes."""
    small: int = 64 * 1024
    """Longest body that is answered on the event loop."""
    large: int = 16
    """Large bodies that are read at once."""
    waiting: int = 8
    """Large reviews that wait for their thread, and conversions for theirs. Further reviews are denied with status 429."""
    sending: int = 16
    """Responses longer than `small` that are sent at once."""
