"""Settings of API access as frozen values. The processes read the environment once at start and construct them.

Durations are in seconds. The defaults are for production; tests use smaller values.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class InformerSettings:
    """How an informer lists, watches and recovers."""

    page_size: int = 500
    watch_list: bool = False
    """Streams the first list through the watch if the server supports it (Kubernetes 1.34 and later)."""
    watch_min: float = 300.0
    watch_max: float = 600.0
    """The server ends each watch after a random time between both, so that informers do not reconnect at once."""
    silence: float = 150.0
    """Time without any data after which a connection is considered dead; bookmarks arrive about once a minute. Watches of
    events get none, and end before."""
    backoff_base: float = 0.2
    backoff_max: float = 30.0
    relist_after: int = 5
    """Failures in a row without an event after which the informer lists again."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to reach the API server, and limits of requests."""

    kubeconfig: Path | None = None
    """None means in-cluster: the ServiceAccount mounted into the pod."""
    context: str | None = None
    """None means the kubeconfig's current context."""
    user_agent: str = "stowage"
    timeout: float = 30.0
    """Time of one attempt, from sending to the last byte of the response."""
    attempts: int = 6
    """Attempts of one request including the first; only if repeating is safe (see retry.py)."""
    backoff_base: float = 0.1
    backoff_max: float = 10.0
    retry_after_max: float = 30.0
    """Longest Retry-After to wait for; beyond it the error is raised, and the caller requeues."""
    concurrency: int = 64
    """Most requests in flight, not counting watches."""
    qps: float = 0.0
    """Client-side limit of requests per second; 0 leaves it to the server's priority and fairness."""
    burst: int = 100
    compress: bool = False
    """Whether to request gzip. On a fast network, decompression costs more than it saves."""
    informers: InformerSettings = InformerSettings()
    """Default for informers of this client."""


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """The Lease and its timing. Raises ValueError unless lease_duration > renew_deadline > retry_period > 0."""

    namespace: str
    name: str
    identity: str
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period > 0:
            raise ValueError(
                f"leader election of {self.identity}: lease_duration {self.lease_duration} > renew_deadline "
                f"{self.renew_deadline} > retry_period {self.retry_period} > 0 does not hold"
            )


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Where spans go, and the share of the new objects that are traced."""

    endpoint: str = ""
    """URL of an OpenTelemetry collector (OTLP over HTTP); empty: no traces."""
    sampling: float = 1.0


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """Settings of a process's frame."""

    name: str
    health_host: str = "0.0.0.0"
    health_port: int = 8081
    """0 selects a free port."""
    authenticate: bool = False
    """Whether metrics and pages require a token that the API server authorizes; not on loopback."""
    log_level: str = "INFO"
    log_json: bool = True
    tracing: TracingSettings = TracingSettings()
    grace: float = 20.0
    """Time from the first signal to the hard end; the pod's terminationGracePeriodSeconds must be longer."""
