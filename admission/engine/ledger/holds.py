"""What is held: capacity that is kept for somebody. One value, one store, one verb.

A hold counts in quota and on nodes as if its pods ran, for all workloads alike and whatever their priority, and nothing is
evicted from it. HoldKind declares each kind once: what it holds, who makes it, when it ends and who may draw on it
(docs/reference/holds.md). The ledger charges a hold like an admission, under a key that no Workload has, or under its owner's
own key: then the bound pods of the owner are a part of it. What a key stands for is asked of the store, never read from the
key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple, Protocol, Self

from admission.engine.journal import Journal
from admission.engine.model import Admission, FlavorResource, Workload
from admission.engine.quota.tree import QuotaTree
from admission.engine.topology.allocation.capacity import Capacity


class HoldTerms(NamedTuple):
    """What a feature holds beside the kinds that the ledger counts as admissions; the fields are as in HoldKind."""

    label: str
    holds: str
    made_by: str
    ends: str
    drawn_by: str


class HoldKind(Enum):
    """Every kind of hold.

    `label` names the kind in keys; empty: it is counted under its owner's own key. `holds`, `made_by`, `ends` and `drawn_by`
    are for the reference page. `waits`: it is kept for a pending workload, so nobody is evicted because a queue exceeds its
    quota with it.
    """

    label: str
    holds: str
    made_by: str
    ends: str
    drawn_by: str
    waits: bool

    def __new__(cls, label: str, holds: str, made_by: str, ends: str, drawn_by: str, waits: bool = False) -> Self:
        """Creates a member from its declaration."""
        member = object.__new__(cls)
        member._value_ = len(cls.__members__)
        member.label, member.holds, member.made_by = label, holds, made_by
        member.ends, member.drawn_by, member.waits = ends, drawn_by, waits
        return member

    SPARES = (
        "spare hosts",
        "hosts beside the pods of a running workload, in quota and on nodes",
        "the start of a workload that requests spare hosts; each cycle that finds one missing",
        "the workload ends",
        "the workload, for pods that lost their host",
    )
    FLAVOR_SPARES = (
        "spare hosts of flavor",
        "idle hosts in each domain of a flavor, on nodes; in quota, if the flavor names a ClusterQueue for them",
        "each cycle that finds one missing",
        "the rule of the flavor changes, or a host leaves its domain",
        "any workload with pods nearby that lost their host, if its own spare hosts have no room",
    )
    CAPACITY_RESERVATION = (
        "",
        "quota and places of a preemptor and of those that start together with it, with their spare hosts",
        "a preemption",
        "the preemptor starts or gives up, or a victim stays",
        "the preemptor at its turn, and workloads that come before it in any case",
        True,
    )
    START_RESERVATION = (
        "",
        "quota and places of the first waiting workload of a queue with backfill, at its expected start",
        "a cycle that refuses the workload",
        "the workload starts or leaves the queue, or another one comes before it",
        "the workload; others until its expected start, if they end by then",
    )
    KEPT_QUOTA = (
        "kept quota",
        "unused nominal quota that the first waiting workload of a StrictFIFO queue requests",
        "a cycle that refuses the workload",
        "the workload starts or leaves the queue, or another one comes before it",
        "the workload at its turn, and workloads that come before it",
        True,
    )
    PLACE = (
        "place",
        "quota and places of a waiting workload while others leave them",
        "a plan of moves that is carried out",
        "the workload starts or leaves the queue; half a minute after the others have left; after a quarter of an hour",
        "the workload at its turn",
        True,
    )
    NEW_PLACE = (
        "new place",
        "the new places of workloads that are to move, while the plan is checked",
        "a plan of moves",
        "the check ends",
        "the workload that moves",
    )
    GANG_PART = (
        "",
        "quota and places of the part of a gang that is in one queue, while victims are chosen for the others",
        "a preemption by a gang in several queues",
        "the choice ends",
        "nobody",
        True,
    )


BESIDE_PODS: Final = (HoldKind.SPARES,)
"""What a running workload holds beside its pods. It ends with the workload."""
LABEL_BESIDE_PODS: Final = HoldKind.SPARES.label
OF_FLAVORS: Final = (HoldKind.FLAVOR_SPARES,)
"""What is held on the nodes of a flavor for no workload in particular. Its owner is the flavor."""
LABEL_OF_FLAVOR: Final = HoldKind.FLAVOR_SPARES.label
HELD_OF_FLAVOR: Final = "Spare hosts held for flavor"
USER_OF_FLAVOR: Final = "SpareHosts"
"""As which kind of user of capacity they are told."""

BESIDE: Final = "reserved"
"""The part of a hold that is counted beside its owner, so that it is not mistaken for an admission of the owner."""


def hold_key(kind: HoldKind, owner: str, part: str = "") -> str:
    """Returns the key under which a hold is counted. No Workload has such a name, unless it is the owner's own key."""
    label = f"{kind.label} {part}" if kind.label and part else kind.label or part
    return f"{owner} ({label})" if label else owner


@dataclass(frozen=True, slots=True)
class Hold:
    """What is held for one owner."""

    kind: HoldKind
    owner: str
    """The key of a workload, or the name of a flavor."""
    workload: Workload
    """The pods that the hold counts as, under its own key."""
    admission: Admission
    """The quota and the places that it takes."""

    @classmethod
    def of(cls, kind: HoldKind, workload: Workload, admission: Admission, part: str = "") -> Hold:
        """Returns a hold for this workload. `part` tells several holds of one kind and owner from each other."""
        key = hold_key(kind, workload.key, part)
        own = workload if key == workload.key else replace(workload, key=key, admission=None, gang=None)
        return cls(kind, workload.key, own, admission)

    @classmethod
    def beside(cls, kind: HoldKind, workload: Workload, admission: Admission, part: str = "") -> Hold:
        """Returns a hold beside the pods of this workload: its places are settled, so its pods ask for no topology."""
        pod_sets = tuple(replace(pod_set, topology=None) for pod_set in workload.pod_sets)
        return cls.of(kind, replace(workload, pod_sets=pod_sets), admission, part)

    @property
    def key(self) -> str:
        """The key under which it is counted."""
        return self.workload.key

    def on_nodes(self) -> Hold:
        """Returns the hold of the places alone, without quota."""
        places = tuple(replace(pod_set, usage={}) for pod_set in self.admission.pod_sets)
        return replace(self, admission=replace(self.admission, pod_sets=places))


def total_usage(holds: Iterable[Hold]) -> dict[FlavorResource, int]:
    """Returns what quota counts for these holds."""
    total: dict[FlavorResource, int] = {}
    for hold in holds:
        for fr, amount in hold.admission.usage().items():
            total[fr] = total.get(fr, 0) + amount
    return total


class Keeper(Protocol):
    """The feature that holds capacity beside the pods of workloads, for pods that lose their host."""

    def hold(self, key: str, /) -> str:
        """Holds what the workload asks for beside its pods; returns why there is too little, or an empty text."""

    def give(self, key: str, admission: Admission, /) -> Sequence[Collection[str]]:
        """Releases and returns the hosts that pods of this admission may take, as sets: those of the first one first."""


class Holds:
    """All holds that the ledger counts, by key. Each change can be reverted (journal.py).

    `keeper` is set by the feature that holds capacity beside pods. `askers` has the workloads that ask for some, with the
    generation of their flavors in which there was too little; 0 for none. `of_flavor` is what the feature remembers of what is
    held of each flavor. `admissions`, `charge` and `release` are the ledger's. Holds of nodes are counted by
    quota/reserved.py, host by host.
    """

    def __init__(
        self,
        journal: Journal,
        quota: QuotaTree,
        capacity: Capacity,
        admissions: Mapping[str, Admission],
        charge: Callable[[Workload, Admission], None],
        release: Callable[[str], Admission | None],
    ) -> None:
        self._journal, self._quota, self._capacity = journal, quota, capacity
        self._admissions, self._charge, self._release = admissions, charge, release
        self._by_key: dict[str, Hold] = {}
        self._by_kind: dict[HoldKind, set[str]] = {}
        self._keys: set[str] = set()
        self.keeper: Keeper | None = None
        self.askers: dict[str, int] = {}
        self.of_flavor: dict[str, object] = {}

    def __contains__(self, key: object) -> bool:
        """Reports whether something is held under this key."""
        return key in self._by_key

    def get(self, key: str) -> Hold | None:
        """Returns the hold under this key."""
        return self._by_key.get(key)

    def owner_of(self, key: str) -> str:
        """Returns for whom the charge under this key is: the owner of a hold, or the workload itself."""
        hold = self._by_key.get(key)
        return key if hold is None else hold.owner

    def of_kind(self, *kinds: HoldKind) -> list[Hold]:
        """Returns the holds of these kinds, by key."""
        return [self._by_key[key] for key in sorted(key for kind in kinds for key in self._by_kind.get(kind, ()))]

    def beside(self, owner: str) -> list[Hold]:
        """Returns what is held beside the pods of the workload."""
        keys = (hold_key(kind, owner) for kind in BESIDE_PODS)
        return [self._by_key[key] for key in keys if key in self._by_key]

    def usage_beside(self, owner: str) -> Mapping[FlavorResource, int]:
        """Returns what quota counts for a workload beside its pods."""
        return total_usage(self.beside(owner))

    def hosts_of_flavor(self, flavor: str) -> int:
        """Returns how many hosts are held of the flavor."""
        holds = (self._by_key[key] for kind in OF_FLAVORS for key in self._by_kind.get(kind, ()))
        return sum(len(hold.admission.pod_sets) for hold in holds if hold.owner == flavor)

    @property
    def keys(self) -> Set[str]:
        """The keys that nobody may evict: those of holds, and what `protect` protects. To be read only."""
        return self._keys

    def put(self, hold: Hold) -> None:
        """Holds this, in place of what was charged under the same key."""
        key = hold.key
        self._charge(hold.workload, hold.admission)
        self._journal.add(self._keys, key)
        self._journal.put(self._by_key, key, hold)
        self._journal.file(self._by_kind, hold.kind, key)
        if hold.kind.waits:
            self._quota.wait(hold.admission.cluster_queue, hold.admission.usage())

    def drop(self, key: str) -> bool:
        """Ends the hold under this key; False if there is none.

        This does not count as freed capacity: no workload has more capacity than before the hold.
        """
        if key not in self._by_key:
            return False
        generations = self._capacity.generations()
        self._release(key)
        self._capacity.keep_generations(generations)
        return True

    @contextmanager
    def lifted(self, kind: HoldKind, owner: str) -> Iterator[bool]:
        """Opens a context in which this is not held, so that its owner may use it. Yields whether there was such a hold.

        It is held again at the end unless its owner is charged by then.
        """
        hold = self._by_key.get(hold_key(kind, owner))
        if hold is None:
            yield False
            return
        self.drop(hold.key)
        try:
            yield True
        finally:
            if owner not in self._admissions:
                self.put(hold)

    def protect(self, key: str) -> None:
        """In a trial: protects the workload under this key from eviction."""
        self._journal.add(self._keys, key)

    def ended(self, key: str) -> None:
        """Records that nothing is charged under this key any more. The ledger calls it with each release."""
        self._journal.discard(self._keys, key)
        hold = self._by_key.get(key)
        if hold is not None:
            self._journal.drop(self._by_key, key)
            self._journal.unfile(self._by_kind, hold.kind, key)
            if hold.kind.waits:
                self._quota.wait(hold.admission.cluster_queue, hold.admission.usage(), -1)
