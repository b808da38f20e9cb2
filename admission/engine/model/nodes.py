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
    """A node. `usable` means Ready and schedulable, `responds` Ready; `allocatable` has no pods subtracted."""

    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    taints: tuple[Taint, ...] = ()
    usable: bool = True
    responds: bool = True


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod that occupies a node (bound, not terminated).

    `workload` is the key of the Workload that the pod names. `exclusive` is what only one pod per node can have
    (api.pod.exclusive). `facts` is what terms of other pods can match; None means unknown, and no term counts the pod.
    `charged` is what the pod counts in quota if that differs from its requests (resources excluded or transformed), else None.
    """

    key: str
    node: str
    requests: Amounts
    workload: str | None = None
    pod_set: str | None = None
    exclusive: Amounts = field(default_factory=dict)
    facts: PodFacts | None = None
    charged: Amounts | None = None


@dataclass(frozen=True, slots=True)
class Payer:
    """The queue that pays for the bound pods of a workload without an admission.

    `local_queue` is the LocalQueue's key. `flavors` has the flavor of each resource by pod set, as far as an admission said so.
    """

    workload: str
    cluster_queue: str
    local_queue: str = ""
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace and its labels, by which pod terms select it."""

    name: str
    labels: Mapping[str, str]
