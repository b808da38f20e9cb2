"""Nodes, bound pods and namespaces as frozen values (convert_nodes.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from api.pod.pod_terms import PodFacts
from api.pod.pods import Taint

Amounts = Mapping[str, int]
"""Integer amount by resource name: cpu in milli-units, everything else in its base unit."""
FlavorResource = tuple[str, str]
"""(flavor, resource), by which quota is counted."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node."""

    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    """No pods are subtracted."""
    taints: tuple[Taint, ...] = ()
    usable: bool = True
    """Whether it is Ready and schedulable."""
    responds: bool = True
    """Whether it is Ready."""


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod on a node."""

    key: str
    node: str
    requests: Amounts
    workload: str | None = None
    """The key of the Workload that the pod names."""
    pod_set: str | None = None
    exclusive: Amounts = field(default_factory=dict)
    """What only one pod per node can have (api.pod.exclusive)."""
    facts: PodFacts | None = None
    """What terms of other pods can match; None means unknown, and no term counts the pod."""
    charged: Amounts | None = None
    """What the pod counts in quota if that differs from its requests (resources excluded or transformed), else None."""


@dataclass(frozen=True, slots=True)
class Payer:
    """The queue that pays for the bound pods of a workload without an admission."""

    workload: str
    cluster_queue: str
    local_queue: str = ""
    """The LocalQueue's key."""
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The flavor of each resource by pod set, as far as an admission said so."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace and its labels, by which pod terms select it."""

    name: str
    labels: Mapping[str, str]
