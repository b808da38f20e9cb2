"""The cluster as the checks see it: lists of objects without what no check reads, and answers to questions. Pure."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from admission.doctor.expected import Expected, Right
from admission.doctor.pod_facts import PodFacts
from admission.doctor.question import Question
from api.errors import InvalidQuantity
from api.kube.resources import CLUSTER_QUEUES, NODES, RESOURCE_FLAVORS, TOPOLOGIES, Resource
from api.names import ELASTIC_QUOTA_LABEL, GANG_MADE
from api.text.quantity import parse_list

Obj = dict[str, Any]
CONTROLLER, UNGATER, WEBHOOK = "stowage-controller", "stowage-ungater", "stowage-webhook"
_MADE = frozenset((GANG_MADE, ELASTIC_QUOTA_LABEL))


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """An object of a kind that Stowage does not manage, and the queue that it names."""

    resource: Resource
    namespace: str
    name: str
    notice: str


@dataclass
class View:
    """A cluster at one moment."""

    namespace: str
    now: float
    """The API server's time in epoch seconds."""
    expected: Expected
    kubectl: str = "kubectl"
    objects: Mapping[Resource, Sequence[Obj]] = field(default_factory=dict)
    pods: Sequence[PodFacts] = ()
    unread: Mapping[Resource | Question, str] = field(default_factory=dict)
    """Why a kind or question could not be read."""
    gaps: Mapping[Resource | Question, str] = field(default_factory=dict)
    """What part of a kind or question could not be read."""
    cut: Mapping[Resource | Question, int] = field(default_factory=dict)
    """Kinds of which only the first objects were read."""
    refused: Sequence[Right] = ()
    """Rights that a process lacks."""
    answers: Mapping[Question, str] = field(default_factory=dict)
    """The error of each question to the webhook; empty if it answered."""
    owners: Mapping[tuple[str, str], frozenset[str] | None] = field(default_factory=dict)
    """The UIDs that exist, by (group, kind); None if the kind is not served."""
    parents: Mapping[str, str] = field(default_factory=dict)
    """The UID of the controller of a pod's owner, by the owner's UID; empty if it has none."""
    unfollowed: frozenset[str] = frozenset()
    """The UIDs of owners that were not looked up."""
    unmanaged: Sequence[Unmanaged] = ()
    held_up: Mapping[str, str] = field(default_factory=dict)
    """Why each pod of Stowage that does not run is held up, by its name."""

    def of(self, resource: Resource) -> Sequence[Obj]:
        """Returns the objects of a kind, sorted by namespace and name; none if the kind is not served."""
        return self.objects.get(resource, ())

    def named(self, resource: Resource, name: str, namespace: str = "") -> Obj | None:
        """Returns one object, or None."""
        return self._names[resource].get((namespace, name))

    def command(self, *words: str) -> str:
        """Returns a kubectl command, with the words quoted for a shell."""
        return f"{self.kubectl} {shlex.join(words)}"

    @cached_property
    def _names(self) -> Mapping[Resource, Mapping[tuple[str, str], Obj]]:
        by_name: defaultdict[Resource, dict[tuple[str, str], Obj]] = defaultdict(dict)
        for resource, listed in self.objects.items():
            by_name[resource] = {(namespace_of(obj), name_of(obj)): obj for obj in listed}
        return by_name

    # ---- flavors and nodes

    @cached_property
    def nodes_of(self) -> Mapping[str, list[Obj]]:
        """The nodes that each ResourceFlavor selects, by its name."""
        nodes: dict[str, list[Obj]] = {}
        for flavor in self.of(RESOURCE_FLAVORS):
            wanted = node_labels(flavor).items()
            nodes[name_of(flavor)] = [node for node in self.of(NODES) if wanted <= labels(node).items()]
        return nodes

    @cached_property
    def used_flavors(self) -> frozenset[str]:
        """The names of flavors in which an administrator's ClusterQueue has quota."""
        queues = (queue for queue in self.of(CLUSTER_QUEUES) if not is_made(queue))
        return frozenset(quota["name"] for queue in queues for quota in flavor_quotas(queue))

    def levels(self, flavor: Obj) -> tuple[str, ...]:
        """Returns the label keys of a flavor's levels, widest first; empty without topology."""
        spec = spec_of(flavor)
        if spec.get("topology"):
            return tuple(spec["topology"].get("levels") or ())
        topology = self.named(TOPOLOGIES, str(spec.get("topologyName") or ""))
        return tuple(str(level.get("nodeLabel")) for level in (spec_of(topology).get("levels") or ()) if topology)


def name_of(obj: Obj) -> str:
    """Returns the object's name."""
    return str(obj["metadata"]["name"])


def namespace_of(obj: Obj) -> str:
    """Returns the object's namespace; empty for cluster-scoped objects."""
    return str(obj["metadata"].get("namespace") or "")


def spec_of(obj: Obj | None) -> Obj:
    """Returns the spec, empty if there is none."""
    return (obj or {}).get("spec") or {}


def status_of(obj: Obj | None) -> Obj:
    """Returns the status, empty if there is none."""
    return (obj or {}).get("status") or {}


def labels(obj: Obj) -> dict[str, str]:
    """Returns the object's labels."""
    return obj["metadata"].get("labels") or {}


def is_made(obj: Obj) -> bool:
    """Reports whether Stowage made the object: the queues of gangs, which limit nothing, and those of elastic quotas."""
    return not _MADE.isdisjoint(labels(obj))


def node_labels(flavor: Obj) -> dict[str, str]:
    """Returns the node labels of a flavor; empty for one that selects every node."""
    return spec_of(flavor).get("nodeLabels") or {}


def flavor_quotas(queue: Obj) -> Iterator[Obj]:
    """Yields the flavors of a ClusterQueue's (or Cohort's) resource groups, with their quotas."""
    for group in spec_of(queue).get("resourceGroups") or ():
        yield from group.get("flavors") or ()


def condition(obj: Obj, kind: str) -> Obj:
    """Returns a condition of the object, empty if it is not set."""
    conditions = status_of(obj).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), {})


def allocatable(nodes: Sequence[Obj]) -> dict[str, int]:
    """Returns what the nodes can allocate together, cpu in milli-units; amounts that cannot be read count as none."""
    total: dict[str, int] = {}
    for node in nodes:
        try:
            for name, amount in parse_list(status_of(node).get("allocatable")).items():
                total[name] = total.get(name, 0) + amount
        except (InvalidQuantity, AttributeError, TypeError):
            continue
    return total
