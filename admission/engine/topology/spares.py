"""Spare hosts: hosts that are kept free for a pod set, to take over the pods of a host that fails.

A spare host runs none of the workload's pods, is in the domain that the pod set requires, and has capacity for as many of
the pod set's pods as its fullest host runs. If the places that were found leave no spare hosts, the hosts are chosen first:
for a domain and a number n of pods, hosts with capacity for n pods are left out, and the pods are placed on the others, at
most n on each (`chosen_first`). Called by place.py, and by the feature for running workloads.

Theory: hosts with capacity for n pods hold n each then, so it does not matter for the number of pods which of them are spare,
and only capacities of hosts need to be tried for n: between two of them the hosts hold no less for a larger n.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, product
from typing import Final

import numpy as np

from admission.engine.decision import NoPlacement, PlacementResult
from admission.engine.model import Assignment, DomainCount, PlacementRequest
from admission.engine.topology import messages
from admission.engine.topology.assignments.assignment_parts import home, stale
from admission.engine.topology.assignments.on_hosts import on_hosts
from admission.engine.topology.constraints import Group
from admission.engine.topology.count import Counter, free_amounts
from admission.engine.topology.exact.joint.colocated import Placed
from admission.engine.topology.neighbours.within import domains_of
from admission.engine.topology.place_group import GroupPlacer
from admission.engine.topology.tree.level import Bools, Ints
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values

_TRIES: Final = 64
"""The number of placements that are tried for pods beside their spare hosts."""

_PAIRS: Final = 2_000
"""The number of combinations that are looked at to find trials."""

Place = Callable[[Sequence[PlacementRequest]], PlacementResult]


@dataclass(frozen=True, slots=True)
class SpareHosts:
    """The spare hosts of each pod set, each with the number of pods that it is held for.

    `shortage` says why there are fewer hosts than requested; None if there are enough.
    """

    held: Mapping[str, Assignment]
    shortage: NoPlacement | None = None


def number(request: PlacementRequest) -> int:
    """Returns how many spare hosts the pod set requests."""
    return 0 if request.pod_set.topology is None else request.pod_set.topology.spare_hosts


def beside(
    steps: GroupPlacer,
    requests: Sequence[PlacementRequest],
    result: PlacementResult,
    simulate_empty: bool,
    place: Place,
) -> PlacementResult:
    """Returns `result` if it leaves capacity for the spare hosts, else what `place` finds beside some, else the failure."""
    if not (result.fits and any(request.asks_beside and request.previous is None for request in requests)):
        return result
    placed = [(request, result.assignments[request.pod_set.name]) for request in requests]
    with steps.journal.trial():
        steps.assume(placed)
        shortage = find(steps, placed, simulate_empty).shortage
    if shortage is None:
        return result
    names = [request.pod_set.name for request in requests if request.asks_beside]
    return chosen_first(steps, requests, simulate_empty, place) or PlacementResult({}, dict.fromkeys(names, shortage))


def present(steps: GroupPlacer, requests: Sequence[PlacementRequest]) -> SpareHosts:
    """Returns the hosts that can be held free beside the charged pods of `previous`."""
    placed = [(request, request.previous) for request in requests if request.previous is not None]
    with steps.journal.trial():
        return find(steps, placed, simulate_empty=False)


def find(steps: GroupPlacer, placed: Placed, simulate_empty: bool) -> SpareHosts:
    """Returns the spare hosts for pods that are charged already: as many as requested, or as many as there are."""
    used = {domain.values[-1] for _, assignment in placed for domain in assignment.domains}
    asking = [(request, assignment) for request, assignment in placed if request.asks_beside]
    usable: list[list[DomainCount]] = []
    shortage: NoPlacement | None = None
    for request, assignment in asking:
        hosts = _usable(steps, request, assignment, used, simulate_empty)
        if isinstance(hosts, NoPlacement):
            shortage, hosts = shortage or hosts, []
        usable.append(hosts)
    shares = _shared([[host.values[-1] for host in hosts] for hosts in usable], [number(r) for r, _ in asking])
    held: dict[str, Assignment] = {}
    for (request, assignment), hosts, names in zip(asking, usable, shares, strict=True):
        own = Assignment(assignment.levels, tuple(host for host in hosts if host.values[-1] in names))
        if len(own.domains) < number(request):
            shortage = shortage or _too_few(request, own, assignment)
        if own.domains:
            held[request.pod_set.name] = own
    return SpareHosts(held, shortage)


def _shared(usable: Sequence[Sequence[str]], wanted: Sequence[int]) -> list[set[str]]:
    """Shares hosts among pod sets, each host for one of them: returns the hosts of each, as many as wanted if possible.

    The first hosts that a pod set can use are preferred. If they are taken, another pod set gives one up that it can replace.
    """
    owner: dict[str, int] = {}

    def take(index: int, asked: frozenset[int]) -> bool:
        for host in usable[index]:
            if host not in owner:
                owner[host] = index
                return True
        for other in range(len(usable)):
            if other in asked:
                continue
            mine = next((host for host in usable[index] if owner[host] == other), None)
            if mine is not None and take(other, asked | {other}):
                owner[mine] = index
                return True
        return False

    for index, number in enumerate(wanted):
        for _ in range(number):
            if not take(index, frozenset((index,))):
                break
    return [{host for host, at in owner.items() if at == index} for index in range(len(usable))]


@dataclass(frozen=True, slots=True)
class _Option:
    """Hosts of one domain (`near`, None for any) that hold at least `most` pods each, the tightest first.

    Hosts of one kind have the same capacity and the same domains.
    """

    near: Values | None
    most: int
    hosts: tuple[str, ...]
    kinds: tuple[Hashable, ...]


_Tried = Mapping[str, tuple[_Option, Sequence[str]]]
"""By pod set: its option, and the hosts that are left out for it."""


def chosen_first(
    steps: GroupPlacer, requests: Sequence[PlacementRequest], simulate_empty: bool, place: Place
) -> PlacementResult | None:
    """Returns places that `place` finds beside spare hosts that were chosen before; None if there are none among those tried.

    With several pod sets, each trial is made without limits on hosts too: they may meet on hosts then, and are placed jointly.
    """
    limits = (True, False) if len(requests) > 1 else (True,)
    for tried in islice(_trials(steps, requests, simulate_empty), _TRIES):
        for limited in limits:
            result = place(_beside(requests, tried, limited))
            if not result.fits:
                continue
            placed = [(request, result.assignments[request.pod_set.name]) for request in requests]
            with steps.journal.trial():
                steps.assume(placed)
                if find(steps, placed, simulate_empty).shortage is None:
                    return result
    return None


def _trials(steps: GroupPlacer, requests: Sequence[PlacementRequest], simulate_empty: bool) -> Iterator[_Tried]:
    """Yields what is tried: an option for each pod set, and hosts of its option, the tightest first."""
    asking = [request for request in requests if request.asks_beside]
    options = [list(islice(_options(steps, request, simulate_empty), _TRIES)) for request in asking]
    simple = len(requests) == 1 and _is_simple(requests[0])
    orders = product(*(range(len(each)) for each in options))
    for at in orders if len(options) == 1 else sorted(islice(orders, _PAIRS), key=sum):
        chosen = [options[index][option] for index, option in enumerate(at)]
        for hosts in _apart(chosen, [number(request) for request in asking], 1 if simple else _PAIRS):
            yield {
                request.pod_set.name: (option, own) for request, option, own in zip(asking, chosen, hosts, strict=True)
            }


def _apart(
    options: Sequence[_Option], numbers: Sequence[int], most: int, taken: frozenset[str] = frozenset()
) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Yields so many hosts of each option, at most `most` choices each, no host for two of them."""
    if not options:
        yield ()
        return
    for own in islice(_choices(options[0], numbers[0], taken), most):
        for others in _apart(options[1:], numbers[1:], most, taken.union(own)):
            yield (own, *others)


def _is_simple(request: PlacementRequest) -> bool:
    """Reports whether it does not matter which hosts of an option are left out."""
    topology, facts = request.pod_set.topology, request.facts
    shaped = topology is not None and bool(topology.slices or topology.constraints)
    return not shaped and not request.pod_set.gathered and (facts is None or not facts.has_terms)


def _choices(option: _Option, number: int, taken: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Yields so many hosts of the option that are not taken, no two times hosts of the same kinds."""
    of_kind: dict[Hashable, int] = {}
    hosts: list[tuple[str, Hashable]] = []
    for host, kind in zip(option.hosts, option.kinds, strict=True):
        if host not in taken and of_kind.get(kind, 0) < number:
            of_kind[kind] = of_kind.get(kind, 0) + 1
            hosts.append((host, kind))
    seen: set[tuple[Hashable, ...]] = set()
    for some in islice(combinations(hosts, number), _PAIRS):
        kinds = tuple(kind for _, kind in some)
        if kinds not in seen:
            seen.add(kinds)
            yield tuple(host for host, _ in some)


def _beside(requests: Sequence[PlacementRequest], tried: _Tried, limited: bool) -> list[PlacementRequest]:
    left_out = {host for _, hosts in tried.values() for host in hosts}
    requests_beside = []
    for request in requests:
        changed = on_hosts(request, "NotIn", left_out)
        if (own := tried.get(request.pod_set.name)) is not None:
            pod_set, option, most = changed.pod_set, own[0], request.most_per_host
            if pod_set.topology is not None and pod_set.topology.near is None:
                pod_set = replace(pod_set, topology=replace(pod_set.topology, near=option.near))
            if limited:
                most = min(option.most, most or option.most)
            changed = replace(changed, pod_set=pod_set, most_per_host=most)
        requests_beside.append(changed)
    return requests_beside


def _options(steps: GroupPlacer, request: PlacementRequest, simulate_empty: bool) -> Iterator[_Option]:
    """Yields the options of a pod set that may hold all its pods beside its spare hosts, the tightest domain first."""
    group = Group(request)
    tree = steps.tree(group)
    if isinstance(tree, NoPlacement) or not tree.shape.by_host:
        return
    resolved = steps.resolve(tree, group)
    if isinstance(resolved, NoPlacement):
        return
    counted = Counter(tree, resolved, simulate_empty=simulate_empty).levels()
    size = resolved.slice_size if resolved.slice_level == tree.depth - 1 else 1
    hosts = tree.levels[-1]
    pods = np.minimum(counted[-1].pod // size * size, resolved.count) * hosts.alive
    left = free_amounts(tree, resolved.request, simulate_empty=simulate_empty)
    level = tree.levels[resolved.level] if resolved.required else None
    domains = domains_of(tree, resolved.level) if resolved.required else np.zeros(len(pods), dtype=np.int64)
    total = np.bincount(domains, weights=pods, minlength=1 if level is None else level.size).astype(np.int64)
    need, spare = resolved.need * resolved.slice_size, number(request)
    large = np.flatnonzero(total > need)
    order = large if level is None else large[np.lexsort((level.label[large], total[large]))]
    for domain in order.tolist():
        rows = np.flatnonzero((domains == domain) & (pods > 0))
        rows = rows[np.lexsort((hosts.label[rows], *(amounts[rows] for amounts in left.values()), pods[rows]))]
        for most in np.unique(pods[rows])[::-1].tolist():
            holding = rows[pods[rows] >= most]
            if len(holding) >= spare and int(np.minimum(pods[rows], most).sum()) - spare * most >= need:
                names = tuple(tree.values(row)[-1] for row in holding.tolist())
                kinds = zip(
                    hosts.parent[holding].tolist(), *(each[holding].tolist() for each in left.values()), strict=True
                )
                yield _Option(None if level is None else level.paths[domain], most, names, tuple(kinds))


def _usable(
    steps: GroupPlacer, request: PlacementRequest, assignment: Assignment, used: set[str], simulate_empty: bool
) -> list[DomainCount] | NoPlacement:
    """Returns the hosts that can be spare for one pod set. Those with the least free capacity come first, to keep large ones
    free.
    """
    group = Group(request)
    tree = steps.tree(group)
    if isinstance(tree, NoPlacement):
        return tree
    if not tree.shape.by_host:
        what = f"spare hosts of pod set {request.pod_set.name}"
        return NoPlacement(messages.without_hosts(what))
    resolved = steps.resolve(tree, group)
    if isinstance(resolved, NoPlacement):
        return resolved
    each = max((domain.count for domain in assignment.domains), default=0)
    known = Assignment(assignment.levels, tuple(one for one in assignment.domains if not _is_stale(tree, one)))
    within = home(tree, known, resolved.level) if resolved.required else None
    alone = replace(resolved, count=each, leader=None, leader_wants=None, within=within or resolved.within)
    pods = Counter(tree, alone, simulate_empty=simulate_empty).levels()[-1].pod
    hosts = tree.levels[-1]
    free = _tightest(hosts.alive & (pods >= each), pods, hosts.label)
    return [DomainCount(tree.values(slot), each) for slot in free if tree.values(slot)[-1] not in used]


def _is_stale(tree: Tree, domain: DomainCount) -> bool:
    return stale(tree, Assignment(tree.output_levels, (domain,))) is not None


def _tightest(good: Bools, pods: Ints, label: Ints) -> list[int]:
    slots = np.flatnonzero(good)
    order: list[int] = slots[np.lexsort((label[slots], pods[slots]))].tolist()
    return order


def _too_few(request: PlacementRequest, spare_hosts: Assignment, assignment: Assignment) -> NoPlacement:
    wanted, each = number(request), max(domain.count for domain in assignment.domains)
    topology, free = request.pod_set.topology, len(spare_hosts.domains)
    required = topology.required if topology is not None else None
    where = f"in their {required}" if required is not None else "on the nodes of their flavor"
    text = (
        f"beside the pods of pod set {request.pod_set.name} there are {free} of {wanted} spare host(s), "
        f"each with room for {each} pod(s), {where}"
    )
    return NoPlacement(text, free, wanted)
