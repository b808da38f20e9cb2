"""What an administrator could add so that the workload is admitted: quota of its queue, or nodes.

The quota that is missing is read off an attempt with quota without end, flavor by flavor; the number of nodes is searched,
with copies of a node that is typical of the domain they go to. Called by remedies.py.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from functools import partial

from admission.engine.explain.attempt import Outcome, attempt
from admission.engine.explain.changes import quota_of
from admission.engine.explain.finishing import DOMAINS, Site
from admission.engine.explain.takers import rows_of
from admission.engine.explain.trying import Trying
from admission.engine.explain.value import AddNodes, Change, RaiseQuota
from admission.engine.model import ClusterQueue, FlavorResource, Node
from admission.engine.topology.constraints import Ask
from admission.engine.topology.count import Counter

BOUNDLESS = 1 << 60
MOST_NODES = 1024


def missing_quota(trying: Trying) -> tuple[tuple[RaiseQuota, ...], bool]:
    """What to raise so that quota is no hindrance, and whether that admits the workload; nothing where no quota is short.

    The first flavor of the queue that comes to an admission counts, else the first that takes the workload at all.
    """
    kept: tuple[RaiseQuota, ...] = ()
    for flavor in (*trying.queue.flavors, None):
        frs = [fr for fr in _quotas(trying.queue) if flavor in (None, fr[0])]
        boundless = tuple(_raise(trying, fr, BOUNDLESS) for fr in frs)
        found = _usage(trying, boundless)
        changes = tuple(_raise(trying, fr, lack) for fr, lack in _lacking(trying, found))
        if found.fits and changes and trying.admits(*changes):
            return changes, True
        kept = kept or changes
    return kept, False


def _usage(trying: Trying, boundless: Sequence[RaiseQuota]) -> Outcome:
    """What the workload would use of the quotas; of flavors that its pods do not fit, too."""
    found = trying.outcome(*boundless)
    if found.fits:
        return found
    with trying.changed(*boundless) as workload:
        return attempt(trying.ledger, workload, trying.now, nodes=False)


def _quotas(queue: ClusterQueue) -> Iterator[FlavorResource]:
    for group in queue.groups:
        for quotas in group.flavors:
            yield from ((quotas.flavor, resource) for resource in sorted(quotas.quotas))


def _lacking(trying: Trying, found: Outcome) -> list[tuple[FlavorResource, int]]:
    with trying.changed():
        available = {fr: trying.ledger.quota.available(trying.queue.name, fr) for fr in found.usage}
    return [(fr, amount - available[fr]) for fr, amount in sorted(found.usage.items()) if amount > available[fr]]


def _raise(trying: Trying, fr: FlavorResource, by: int) -> RaiseQuota:
    quota = quota_of(trying.queue, *fr)
    return RaiseQuota(trying.queue.name, *fr, by, (0 if quota is None else quota.nominal) + by)


def more_nodes(trying: Trying, sites: Sequence[Site]) -> Change | None:
    """The smallest number of nodes in the first domain where nodes help, like those that are there."""
    for site in sites:
        for like, domain in _typical(site):
            levels = site.rooms.tree.shape.levels[: len(domain)]
            flavor = site.group.workers.flavor
            change = trying.least(partial(AddNodes, flavor, like.name, levels, domain), _plenty(like, site.ask))
            if change is not None:
                return change
    return None


def _typical(site: Site) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """A typical node and the domain it stands in: of the best domains of the level that the nodes are to go to."""
    rooms, ask, tree = site.rooms, site.ask, site.rooms.tree
    level = _level(ask, tree.depth, by_host=tree.shape.by_host)
    for slot in rooms.best(ask, level, Counter(tree, ask).levels()[level])[:DOMAINS]:
        usable = rows_of(tree, level, slot) & rooms.usable(ask)
        names = sorted(name for row in usable.nonzero()[0].tolist() for name in tree.members(row))
        nodes = [node for name in names if (node := rooms.node(name)) is not None and _holds(node, ask)]
        if nodes:
            kinds = Tally(tuple(sorted(node.allocatable.items())) for node in nodes)
            usual = max(kinds.values())
            like = next(n for n in nodes if kinds[tuple(sorted(n.allocatable.items()))] == usual)
            yield like, tree.levels[level].paths[slot]


def _level(ask: Ask, depth: int, *, by_host: bool) -> int:
    """The level that is asked for; above the hosts, where new nodes are domains of their own."""
    lowest = depth - 2 if by_host and depth > 1 else depth - 1
    return min(ask.level, lowest)


def _plenty(like: Node, ask: Ask) -> int:
    """So many such nodes would hold everything by themselves: if they do not do, no more of them will."""
    each = min(like.allocatable.get(resource, 0) // amount for resource, amount in ask.request.items() if amount > 0)
    size = ask.slice_size
    nodes = -(-ask.need // (each // size)) if each >= size else ask.need * -(-size // each)
    return min(MOST_NODES, nodes + ask.leaders)


def _holds(node: Node, ask: Ask) -> bool:
    """Whether the empty node holds one pod."""
    return all(node.allocatable.get(resource, 0) >= amount for resource, amount in ask.request.items())
