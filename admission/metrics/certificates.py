"""Metrics of the servers with a certificate: the webhook, the visibility API and the dashboard."""

from __future__ import annotations

from typing import Final

from prometheus_client import Gauge

CERTIFICATE_REMAINING: Final = Gauge(
    "stowage_certificate_remaining_ratio",
    "What is left of the validity of the certificate that the process serves with: 1 when it is new, 0 when it ends.",
    ("certificate",),
)
SERVING: Final = "serving"
"""The label's value; a process serves with one certificate."""
