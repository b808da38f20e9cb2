"""Spare hosts of flavors: hosts of each domain that are kept free for pods of a host that fails, of any workload.

The rule comes from an annotation of the ResourceFlavor (model.SpareRule). A host is held while no workload uses it; where all
are in use, one is held as soon as it is idle. The ledger counts all that is free on a held host like an admission that nobody
can evict, and charges it to the ClusterQueue of the rule as far as that has quota. The second pass releases the spare hosts
near a workload that lost a node, and holds what remains. Which host it is need not be remembered: see of_workloads.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, cast

import numpy as np

from admission.engine.ledger.holds import Hold, HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Admission,
    Amounts,
    Assignment,
    DomainCount,
    FlavorResource,
    PodSet,
    PodSetAdmission,
    SpareRule,
    Workload,
)
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values

# Above every priority that a PriorityClass can give: the sums of lower priorities do not include spare hosts.
_PRIORITY: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class FlavorSpares:
    """The spare hosts of one flavor. `held` has the hosts by domain, in order of path.

    `wanted_of` is how many the rule says for each domain; `nodes`, how many hosts the flavor had then, and `generation`, the
    ledger's: when it has grown, a host may be in another domain now, and while there are too few, hosts are looked for again.
    """

    rule: SpareRule
    held: dict[Values, tuple[str, ...]]
    wanted_of: dict[Values, int]
    nodes: int
    generation: int

    @property
    def wanted(self) -> int:
        """How many hosts the rule says."""
        return sum(self.wanted_of.values())

    def hosts(self) -> set[str]:
        """Returns the names of the held hosts."""
        return {host for hosts in self.held.values() for host in hosts}

    @property
    def count(self) -> int:
        """The number of held hosts."""
        return sum(map(len, self.held.values()))


def hold_missing(ledger: Ledger) -> dict[str, str]:
    """Holds spare hosts of each flavor, where the rule or the nodes have changed or hosts may have become idle.

    Returns the flavors of which hosts were given back, with the ClusterQueue that they were charged to or an empty string.
    """
    ruled = {name for name, flavor in ledger.flavors.items() if flavor.spare is not None}
    freed: dict[str, str] = {}
    for name in sorted(ruled | states(ledger).keys()):
        flavor, tree, before = ledger.flavors.get(name), ledger.capacity.trees.get(name), states(ledger).get(name)
        if flavor is None or flavor.spare is None or tree is None:
            _forget(ledger, name)
        elif not (holder := _Holder(ledger, name, flavor.spare, tree)).is_current():
            holder.renew()
        now = states(ledger).get(name)
        if before is not None and now is not before and not before.hosts() <= (set() if now is None else now.hosts()):
            freed[name] = before.rule.queue
    return freed


def release_near(ledger: Ledger, admission: Admission) -> list[str]:
    """Releases and returns the spare hosts in the domains of the admission's pods, or all where its domains are unknown.

    `hold_missing` holds those that are still idle afterwards.
    """
    hosts: list[str] = []
    for got in admission.pod_sets:
        name = ledger.allocations.flavor_of(got)
        state, tree = states(ledger).get(name), ledger.capacity.trees.get(name)
        if state is None or tree is None or got.assignment is None:
            continue
        near = {_domain_of(tree, state.rule, domain.values[-1]) for domain in got.assignment.domains} - {None}
        for domain in [each for each in state.held if each in near or not near]:
            if ledger.holds.drop(_key(name, domain)):
                hosts += state.held[domain]
    return hosts


def states(ledger: Ledger) -> dict[str, FlavorSpares]:
    """Returns what is remembered of each flavor."""
    return cast("dict[str, FlavorSpares]", ledger.holds.of_flavor)


class _Holder:
    """Holds the hosts of one flavor by its rule."""

    def __init__(self, ledger: Ledger, flavor: str, rule: SpareRule, tree: Tree) -> None:
        self._ledger, self._flavor, self._rule, self._tree = ledger, flavor, rule, tree
        self._queue = ledger.quota.spec(rule.queue) if rule.queue else None

    def is_current(self) -> bool:
        """Reports whether the held hosts are those that the rule asks for, or no other host can have become idle."""
        state, ledger = states(self._ledger).get(self._flavor), self._ledger
        if state is None or state.rule != self._rule or state.nodes != len(self._tree.levels[-1]):
            return False
        if state.generation != (generation := ledger.generation(self._flavor)):
            if state.count < state.wanted or state.wanted_of != _wanted(self._tree, self._rule):
                return False
            ledger.journal.put(states(ledger), self._flavor, replace(state, generation=generation))
        return all(self._is_held(domain, hosts) for domain, hosts in state.held.items())

    def renew(self) -> None:
        """Holds what the rule says. A host that is held stays held while it is in its domain."""
        ledger, before = self._ledger, states(self._ledger).get(self._flavor)
        if before is not None and before.rule != self._rule:
            _forget(ledger, self._flavor)
            before = None
        counts, earlier = _wanted(self._tree, self._rule), before.held if before is not None else {}
        kept = {
            each for each, hosts in earlier.items() if len(hosts) == counts.get(each) and self._is_held(each, hosts)
        }
        for domain in earlier.keys() - kept:
            ledger.holds.drop(_key(self._flavor, domain))
        idle = _idle_hosts(self._tree, self._rule, counts.keys() - kept)
        idle_of = {
            domain: earlier[domain]
            if domain in kept
            else self._hold(
                domain, sorted(idle[domain], key=lambda host: (host not in earlier.get(domain, ()), host)), number
            )
            for domain, number in counts.items()
        }
        held = {domain: hosts for domain, hosts in idle_of.items() if hosts}
        generation, hosts_now = ledger.generation(self._flavor), len(self._tree.levels[-1])
        state = FlavorSpares(self._rule, held, counts, hosts_now, generation)
        ledger.journal.put(states(ledger), self._flavor, state)

    def _is_held(self, domain: Values, hosts: tuple[str, ...]) -> bool:
        """Reports whether the domain's spare hosts are charged and still in it."""
        charged = _key(self._flavor, domain) in self._ledger.holds
        return charged and all(_domain_of(self._tree, self._rule, host) == domain for host in hosts)

    def _hold(self, domain: Values, hosts: Sequence[str], number: int) -> tuple[str, ...]:
        """Holds the first so many of these idle hosts for which there is quota; returns them."""
        holds = list(islice(self._affordable(hosts), number))
        if not holds:
            return ()
        queue, pod_sets = self._rule.queue, tuple(pods for pods, _ in holds)
        key = _key(self._flavor, domain)
        own = Workload(key=key, uid="", queue="", cluster_queue=queue, priority=_PRIORITY, pod_sets=pod_sets)
        admission = Admission(queue, tuple(got for _, got in holds))
        self._ledger.holds.put(Hold(HoldKind.FLAVOR_SPARES, self._flavor, own, admission))
        return tuple(pods.name for pods in pod_sets)

    def _affordable(self, hosts: Sequence[str]) -> Iterator[tuple[PodSet, PodSetAdmission]]:
        """Yields a pod set of one pod that fills the host, for each host for which the ClusterQueue has quota."""
        total: dict[FlavorResource, int] = {}
        for host in hosts:
            amounts = _free_amounts(self._tree, host)
            charged = {name: amount for name, amount in amounts.items() if self._covers(name)}
            after = {(self._flavor, name): total.get((self._flavor, name), 0) + each for name, each in charged.items()}
            if after and not self._ledger.quota.fits(self._rule.queue, after):
                continue
            total |= after
            place = Assignment(self._tree.output_levels, (DomainCount((host,), 1),))
            # The flavor is named even where nothing is charged: it says on whose nodes the host is.
            flavors = dict.fromkeys(charged or ("",), self._flavor)
            yield PodSet(name=host, count=1, requests=amounts), PodSetAdmission(host, flavors, charged, 1, place)

    def _covers(self, resource: str) -> bool:
        return self._queue is not None and any(
            resource in group.resources and any(each.flavor == self._flavor for each in group.flavors)
            for group in self._queue.groups
        )


def _key(flavor: str, domain: Values) -> str:
    return hold_key(HoldKind.FLAVOR_SPARES, flavor, "/".join(domain))


def _forget(ledger: Ledger, name: str) -> None:
    state = states(ledger).get(name)
    if state is None:
        return
    for domain in state.held:
        ledger.holds.drop(_key(name, domain))
    ledger.journal.drop(states(ledger), name)


def _wanted(tree: Tree, rule: SpareRule) -> dict[Values, int]:
    """Returns the number of spare hosts of each domain that has some, by path."""
    level = tree.level_of(rule.level)
    if level is None or not tree.shape.by_host:
        return {}
    above = _domain_of_hosts(tree, level)[tree.levels[-1].alive]
    numbers = np.bincount(above, minlength=tree.levels[level].size) // rule.of * rule.hosts
    paths = tree.levels[level].paths
    return {paths[slot]: int(numbers[slot]) for slot in tree.levels[level].in_order(np.flatnonzero(numbers).tolist())}


def _idle_hosts(tree: Tree, rule: SpareRule, domains: Collection[Values]) -> dict[Values, list[str]]:
    """Returns by domain the hosts on which no admitted workload uses anything, by name. O(hosts), for all domains together."""
    level = tree.level_of(rule.level)
    idle: dict[Values, list[str]] = {domain: [] for domain in domains}
    if level is None or not domains:
        return idle
    slots = {slot: domain for domain in domains if (slot := tree.levels[level].slots.get(domain)) is not None}
    above = _domain_of_hosts(tree, level)
    for host in tree.levels[-1].in_order(np.flatnonzero(tree.idle() & np.isin(above, list(slots))).tolist()):
        idle[slots[int(above[host])]].append(tree.values(host)[-1])
    return idle


def _domain_of(tree: Tree, rule: SpareRule, host: str) -> Values | None:
    """Returns the domain of the rule's level in which the host is, or None if the tree has no such host."""
    row, level = tree.row_of_host.get(host), tree.level_of(rule.level)
    return None if row is None or level is None else tree.levels[-1].paths[row][: level + 1]


def _free_amounts(tree: Tree, host: str) -> Amounts:
    """Returns what is free on the host, by resource; without pod slots and exclusive names."""
    row, columns = tree.row_of_host[host], tree.columns
    amounts = {
        name: tree.free_at(row, column) for column, name in enumerate(columns.names) if column not in columns.exclusive
    }
    return {name: amount for name, amount in amounts.items() if amount > 0 and name != "pods"}


def _domain_of_hosts(tree: Tree, level: int) -> Ints:
    """Returns for each host's slot the slot of its domain at that level."""
    above = np.arange(tree.levels[-1].size, dtype=np.int64)
    for lower in range(tree.depth - 1, level, -1):
        above = tree.levels[lower].parent[above]
    return above
