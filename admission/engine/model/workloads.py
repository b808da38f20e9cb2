"""Workloads, their pod sets and admissions as frozen values (convert_workloads.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.engine.model.nodes import Amounts, FlavorResource
from admission.engine.model.restart import NO_TERMS, RestartTerms
from admission.engine.model.topology import Assignment, Profile, TopologyRequest
from api.pod.pod_terms import Labels, PodFacts
from api.pod.pods import NodeSelectorTerm, PreferredTerm, Toleration


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods with equal requests."""

    name: str
    count: int
    requests: Amounts
    """Those of a single pod, without `pods`."""
    min_count: int | None = None
    topology: TopologyRequest | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[NodeSelectorTerm, ...] | None = None
    """The terms of which a node must match one; None without affinity."""
    preferred_affinity: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    charged: Amounts | None = None
    """What a pod counts in quota if that differs from its requests (resources excluded or transformed), else None."""
    exclusive: Amounts = field(default_factory=dict)
    """What only one pod per node can have (api.pod.exclusive)."""
    volumes: tuple[tuple[NodeSelectorTerm, ...], ...] = ()
    """For each volume that some nodes cannot reach, the node terms of which one must match."""
    gathered: tuple[str, ...] = ()
    """Topology keys. One domain of each must hold all pods, because they share a volume that is chosen later."""
    labels: Labels = ()
    """Those of the template."""
    facts: PodFacts | None = None
    """What other pods' terms see of the pods, if the pods have terms themselves, else None."""
    node_holds: tuple[str, ...] | None = ()
    """The holds whose nodes the pods may use now; None for all of them. requests.py sets it in each request."""

    @property
    def devices(self) -> int:
        """The GPUs and other devices of a pod; 1 for a pod without any."""
        return max(1, sum(amount for name, amount in self.requests.items() if "/" in name and amount > 0))


@dataclass(frozen=True, slots=True)
class PodSetAdmission:
    """The admission of one pod set."""

    name: str
    flavors: Mapping[str, str]
    """Flavor by resource."""
    usage: Amounts
    """The total charged to quota."""
    count: int
    """May be lower than requested."""
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """The admission of a workload: its queue and its pod sets."""

    cluster_queue: str
    pod_sets: tuple[PodSetAdmission, ...]

    def usage(self) -> dict[FlavorResource, int]:
        """Returns the total per (flavor, resource)."""
        total: dict[FlavorResource, int] = {}
        for pod_set in self.pod_sets:
            for resource, amount in pod_set.usage.items():
                key = (pod_set.flavors[resource], resource)
                total[key] = total.get(key, 0) + amount
        return total


@dataclass(frozen=True, slots=True)
class Gang:
    """The gang that a workload is, or joins late."""

    uid: str
    """Orders gangs of equal time, so that members are adjacent."""
    together: tuple[str, ...] = ()
    """The keys of the workloads that start in one cycle or not at all (a gang group, including this workload), or nothing."""
    started: bool = False
    """Whether its pods were ungated."""
    joins: str = ""
    """The key of the gang's own workload, for a late joiner; else empty."""
    minimum: int | None = None
    """The number of pods that start without the others if not all of them fit; None for all."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload as the engine sees it. Times are in epoch seconds."""

    key: str
    uid: str
    queue: str
    """The key of its LocalQueue."""
    cluster_queue: str
    """The ClusterQueue of its LocalQueue."""
    pod_sets: tuple[PodSet, ...]
    priority: int = 0
    queued: float = 0.0
    """Orders workloads of equal priority: the creation, or an eviction's time where the rules say so; for a gang, the creation
    of its first pod."""
    not_before: float = 0.0
    """The end of its backoff."""
    blocked: tuple[str, str] | None = None
    """Why it must not be considered at all (deactivated, gated, queue missing or stopped, namespace rejected), as (reason,
    message); None if it may be."""
    defect: str | None = None
    """An error of its pods, or None. It is reported when the workload's turn comes, so it holds up a StrictFIFO queue as
    `blocked` does not."""
    admission: Admission | None = None
    evicted: bool = False
    profile: Profile | None = None
    reserved: float | None = None
    """Since when it has held quota; None for just now."""
    job_uid: str = ""
    """The UID of its job, for messages."""
    gang: Gang | None = None
    """Set for gangs and late joiners."""
    time_limit: float | None = None
    """The seconds that it may still run; None for no limit."""
    admitted: float | None = None
    """Since when it runs, or None."""
    gated: bool = False
    """Whether a preemption gate is closed, so that it must not preempt."""
    one_pod: bool = False
    """Whether it is of a single plain pod, which nothing replaces."""
    replaces: str = ""
    """The key of the admitted workload of its job that this one replaces, or empty."""
    pod_labels: Labels = ()
    """Labels that its owner gives each pod besides the template's."""
    boost: int = 0
    """The part of its priority that the annotation `priority-boost` adds."""
    restart: RestartTerms = NO_TERMS
    """The terms under which it may be started at another place while it runs."""
    reservation: str = ""
    """The hold of nodes that it names, or empty."""
    guess: float | None = None
    """For how many seconds it will run at most, as far as others like it tell; None if its queue does not go by that or
    nothing is known."""
    yields: float | None = None
    """From when on it may be evicted for a head that it has overtaken, because it started by its guess; None if it did not."""
    priority_elsewhere: int | None = None
    """For a gang whose user writes its priority: the priority that counts against workloads of other namespaces, at most
    `priority`; None if `priority` counts everywhere."""
    termination: float = 0.0
    """The seconds that its pods have to end once its time is over."""
    annotations: Labels = ()
    """Those of its annotations that a feature reads (`Feature.annotations`)."""

    def annotation(self, key: str) -> str | None:
        """Returns the value of an annotation that a feature reads, which a tenant has written; None without it."""
        return next((value for name, value in self.annotations if name == key), None)

    @property
    def lowest_priority(self) -> int:
        """The priority toward workloads of other namespaces, which is at most `priority`."""
        return self.priority if self.priority_elsewhere is None else self.priority_elsewhere

    @property
    def namespace(self) -> str:
        """The workload's namespace."""
        return self.key.partition("/")[0]

    @property
    def asks_beside(self) -> bool:
        """Whether capacity beside its pods is to be held."""
        return any(pod_set.topology is not None and pod_set.topology.asks_beside for pod_set in self.pod_sets)

    @property
    def devices(self) -> int:
        """The devices of all pods."""
        return sum(pod_set.count * pod_set.devices for pod_set in self.pod_sets)

    def facts_of(self, pod_set: PodSet) -> PodFacts:
        """Returns what terms of other pods see of a pod of this pod set."""
        if pod_set.facts is not None:
            return pod_set.facts
        return PodFacts(self.namespace, pod_set.labels + self.pod_labels)

    @property
    def ends(self) -> float | None:
        """When its last pod has ended, or has left for those that need its place, in epoch seconds; None without a limit."""
        if self.time_limit is None or self.admitted is None:
            return None if self.yields is None else self.yields + self.termination
        return self.admitted + self.time_limit + self.termination
