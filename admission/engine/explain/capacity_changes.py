"""Searches what an administrator could add so that the workload is admitted: quota of its queue, or nodes.

remedies.py calls it. The missing quota is computed from an attempt with unlimited quota, flavor by flavor; the number of nodes
is searched, with copies of a typical node of their domain.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from admission.engine.cycle.admission_attempt import AttemptResult, attempt, fewest
from admission.engine.explain.apply_changes import quota_of
from admission.engine.explain.changes import (
    AddNodes,
    Change,
    CoverResource,
    RaiseQuota,
)
from admission.engine.explain.finishing import DOMAINS, UnplacedGroup
from admission.engine.explain.flavor_capacity import in_slices
from admission.engine.explain.trials import Trials
from admission.engine.flavors.search import total_requests
from admission.engine.model import ClusterQueue, FlavorResource, Node
from admission.engine.topology.constraints import ResolvedRequest
from admission.engine.topology.count import Counter, rows_below

BOUNDLESS = 1 << 60
MOST_FLAVORS = 8
"""How many flavors that the queue does not have are tried for a resource that it does not cover."""

MOST_NODES = 256
"""Remedies never propose more nodes than this."""


def missing_quota(trials: Trials) -> tuple[tuple[RaiseQuota, ...], bool]:
    """Returns the quotas to raise so that quota is no obstacle, and whether that admits the workload; empty if none is short.

    For a workload that can start with fewer pods, only quota for these counts. The first flavor of the queue that leads to an
    admission counts, else the first that accepts the workload.
    """
    kept: tuple[RaiseQuota, ...] = ()
    for flavor in (*trials.queue.flavors, None):
        frs = [fr for fr in _quotas(trials.queue) if flavor in (None, fr[0])]
        boundless = tuple(_raise(trials, fr, BOUNDLESS) for fr in frs)
        attempt = _usage(trials, boundless)
        changes = tuple(_raise(trials, fr, amount_missing) for fr, amount_missing in _missing_quota(trials, attempt))
        if attempt.fits and changes and trials.admits(*changes):
            return changes, True
        kept = kept or changes
    return kept, False


def covering(trials: Trials) -> Iterator[tuple[CoverResource, ...]]:
    """Yields ways to add quota for resources that no group of the queue covers: in an existing group, or in a new one.

    Yields nothing if all are covered. The amount is that of the smallest number of pods with which the workload can start.
    """
    queue, total = trials.queue, dict[str, int]()
    for pod_set in fewest(trials.workload).pod_sets:
        for resource, amount in total_requests(queue, pod_set).items():
            if amount and queue.group_of(resource) is None and not queue.ignores_uncovered:
                total[resource] = total.get(resource, 0) + amount
    if not total:
        return
    beside = [(tuple(quotas.flavor for quotas in group.flavors), group.resources) for group in queue.groups]
    others = sorted(trials.ledger.flavors.keys() - set(queue.flavors))[:MOST_FLAVORS]
    for flavors, resources in (*beside, *(((name,), ()) for name in others)):
        yield tuple(CoverResource(queue.name, name, total[name], flavors, resources) for name in sorted(total))


def _usage(trials: Trials, boundless: Sequence[RaiseQuota]) -> AttemptResult:
    """Returns what the workload would use of the quotas, even in flavors whose nodes its pods do not fit."""
    result = trials.of(fewest(trials.workload)).outcome(*boundless)
    if result.fits:
        return result
    with trials.changed(*boundless) as workload:
        return attempt(trials.ledger, fewest(workload), trials.now, nodes=False)


def _quotas(queue: ClusterQueue) -> Iterator[FlavorResource]:
    for group in queue.groups:
        for quotas in group.flavors:
            yield from ((quotas.flavor, resource) for resource in sorted(quotas.quotas))


def _missing_quota(trials: Trials, attempt: AttemptResult) -> list[tuple[FlavorResource, int]]:
    with trials.changed():
        available = {fr: trials.ledger.quota.available(trials.queue.name, fr) for fr in attempt.usage}
    return [(fr, amount - available[fr]) for fr, amount in sorted(attempt.usage.items()) if amount > available[fr]]


def _raise(trials: Trials, fr: FlavorResource, by: int) -> RaiseQuota:
    quota = quota_of(trials.queue, *fr)
    return RaiseQuota(trials.queue.name, *fr, by, (0 if quota is None else quota.nominal) + by)


def raised(trials: Trials, by: Mapping[FlavorResource, int]) -> tuple[RaiseQuota, ...]:
    """Returns changes that raise the queue's nominal quota by these amounts."""
    return tuple(_raise(trials, fr, amount) for fr, amount in sorted(by.items()))


def more_nodes(trials: Trials, unplaced_groups: Sequence[UnplacedGroup]) -> Change | None:
    """Returns the smallest addition of nodes, in the first domain where it helps, with nodes like the existing ones."""
    for unplaced in unplaced_groups:
        daemons = _daemons(unplaced)
        for like, domain, holds in _typical(unplaced, daemons):
            levels = unplaced.capacity.tree.shape.levels[: len(domain)]
            add = partial(AddNodes, unplaced.group.workers.flavor, like.name, levels, domain, daemons)
            change = trials.least(add, *_guess(like, daemons, unplaced.resolved, holds))
            if change is not None:
                return change
    return None


def _daemons(unplaced: UnplacedGroup) -> tuple[tuple[str, int], ...]:
    """Returns what foreign pods use on every node: daemons, which run on new nodes as well."""
    rows = unplaced.capacity.usable(unplaced.resolved).nonzero()[0].tolist()
    records = [unplaced.capacity.record(name) for row in rows for name in unplaced.capacity.tree.members(row)]
    columns = unplaced.capacity.tree.columns
    least = {c: min(record.foreign.get(c, 0) for record in records) for c in (records[0].foreign if records else ())}
    return tuple(sorted((columns.names[column], amount) for column, amount in least.items() if amount > 0))


def _typical(
    unplaced: UnplacedGroup, daemons: tuple[tuple[str, int], ...]
) -> Iterator[tuple[Node, tuple[str, ...], int]]:
    """Yields a typical node, its domain, and the number of pods that fit now, for the best domains of the level for new nodes.

    The number is that of the domain, or of all domains if the level is not required.
    """
    capacity, resolved, tree = unplaced.capacity, unplaced.resolved, unplaced.capacity.tree
    level = _level(resolved, tree.depth, by_host=tree.shape.by_host)
    numbers = Counter(tree, resolved).levels()
    counts = capacity.counts(resolved, level, numbers[level])
    for slot in capacity.best(resolved, level, numbers[level])[:DOMAINS]:
        usable = rows_below(tree, level, [slot]) & capacity.usable(resolved)
        names = sorted(name for row in usable.nonzero()[0].tolist() for name in tree.members(row))
        nodes = [node for name in names if (node := capacity.node(name)) is not None and _each(node, daemons, resolved)]
        if nodes:
            kinds = Tally(tuple(sorted(node.allocatable.items())) for node in nodes)
            usual = max(kinds.values())
            like = next(n for n in nodes if kinds[tuple(sorted(n.allocatable.items()))] == usual)
            holds = int(counts[slot]) if resolved.required else int(counts[tree.levels[level].ids()].sum())
            yield (
                like,
                tree.levels[level].paths[slot],
                holds * (resolved.slice_size if in_slices(resolved, level) else 1),
            )


def _level(resolved: ResolvedRequest, depth: int, *, by_host: bool) -> int:
    """Returns the level for new nodes: the requested one, but above hosts, since a new node is a host of its own."""
    lowest = depth - 2 if by_host and depth > 1 else depth - 1
    return min(resolved.level, lowest)


def _guess(like: Node, daemons: tuple[tuple[str, int], ...], resolved: ResolvedRequest, holds: int) -> tuple[int, int]:
    """Returns how many such nodes may be needed in addition to the `holds` pods that fit, and how many suffice by themselves.

    If the latter do not suffice, no larger number does.
    """
    each, size = _each(like, daemons, resolved), resolved.slice_size
    alone = -(-resolved.need // (each // size)) if each >= size else resolved.need * -(-size // each)
    return max(1, -(-(resolved.need * size - holds) // each)), min(MOST_NODES, alone + resolved.leaders)


def _each(node: Node, daemons: tuple[tuple[str, int], ...], resolved: ResolvedRequest) -> int:
    """Returns how many pods such a node holds in addition to its daemons."""
    taken, offers = dict(daemons), node.allocatable
    fits = (
        (offers.get(name, 0) - taken.get(name, 0)) // amount for name, amount in resolved.request.items() if amount > 0
    )
    return max(0, min(fits))
