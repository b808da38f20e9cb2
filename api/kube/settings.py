"""Settings of the IO layer as frozen values. Nothing here reads the environment: the processes do, once, at start.

All durations are seconds. The defaults are those of a production process; tests make smaller ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class InformerSettings:
    """How an informer lists, watches and comes back."""

    page_size: int = 500
    watch_list: bool = False
    """Stream the first list through the watch where the server supports it (Kubernetes 1.34 and later)."""
    watch_min: float = 300.0
    watch_max: float = 600.0
    """The server ends each watch after a random time between the two, so that informers do not return all at once."""
    silence: float = 150.0
    """Nothing at all for so long means a dead connection: bookmarks come about once a minute."""
    backoff_base: float = 0.2
    backoff_max: float = 30.0
    relist_after: int = 5
    """Failures in a row, without one event between them, after which the resourceVersion is given up."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to reach the API server and how hard to try."""

    kubeconfig: Path | None = None
    """None means in-cluster: the ServiceAccount that is mounted into the pod."""
    context: str | None = None
    """None means the kubeconfig's current context."""
    user_agent: str = "stowage"
    timeout: float = 30.0
    """Of one try, from sending to the last byte of the answer."""
    attempts: int = 6
    """Tries of one request in all, the first included; only where a repetition is safe (see client.py)."""
    backoff_base: float = 0.1
    backoff_max: float = 10.0
    retry_after_max: float = 30.0
    """A server that asks for a longer pause than this gets none: the error goes to the caller, who requeues."""
    concurrency: int = 64
    """Requests in flight at once; watches do not count."""
    qps: float = 0.0
    """Client-side limit of requests per second; 0 leaves it to the server's priority and fairness."""
    burst: int = 100
    compress: bool = False
    """Ask for gzip. Off: the answers come over a fast network and unpacking costs more than it saves."""
    informers: InformerSettings = InformerSettings()
    """For the informers of this client that are given none of their own."""


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """The Lease and its timing; must hold: lease_duration > renew_deadline > retry_period > 0."""

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
class ProcessSettings:
    """What the three processes share."""

    name: str
    health_host: str = "0.0.0.0"
    health_port: int = 8081
    """0 picks a free one."""
    authenticate: bool = False
    """Metrics and pages are for bearers of tokens that the API server lets read them; never asked on loopback."""
    log_level: str = "INFO"
    log_json: bool = True
    grace: float = 20.0
    """From the first signal to the hard end; the pod's terminationGracePeriodSeconds must be longer."""
