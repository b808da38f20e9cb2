"""The next head under fair sharing (cycle.md 4.2).

The search descends from the root of each cohort tree. The child wins whose dominant resource share is smallest with the
request of its candidate added; a subtree that stays within its quota comes before any that borrows. Each pick is a new
tournament, because usage has grown since the last one. Ties break by name. Called by head_order.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from admission.engine.cycle.nomination import Nomination
from admission.engine.ledger import Ledger
from admission.engine.queue.cluster_queue import Order, order_of
from admission.engine.quota.cohorts import QuotaNode
from admission.engine.quota.fairness import Share, dominant_share

Score = tuple[bool, Share, Order]
"""How a candidate does in a cohort; less is better: whether its subtree borrows the requested amounts, its share, its age."""


def winner(left: Mapping[str, Nomination], ledger: Ledger, nominal_first: bool = True) -> Nomination:
    """Returns the candidate that is next in the cohort tree of the first queue by name.

    `left` maps each queue to its candidate and must not be empty.
    """
    first = min(left)
    node = ledger.quota.node(first)
    if node is None or node.parent is None:
        return left[first]
    root = node.root()
    scores = {
        (at.name, name): (nominal_first and score[0], *score[1:])
        for name, each in left.items()
        if (own := ledger.quota.node(name)) is not None and own.root() is root
        for at, score in _scores(own, each, ledger)
    }
    found = _best(root, left, scores)
    return found or left[first]


def _scores(queue: QuotaNode, candidate: Nomination, ledger: Ledger) -> Iterator[tuple[QuotaNode, Score]]:
    """Yields the score of the candidate in each cohort above its queue, with its usage added."""
    usage, order = candidate.assignment.usage, order_of(candidate.workload)
    found: list[tuple[QuotaNode, Score]] = []
    with ledger.trial():
        ledger.quota.add(queue.name, usage)
        node = queue
        for above in queue.ancestors():
            borrows = any(node.usage.get(fr, 0) > node.subtree.get(fr, 0) for fr, amount in usage.items() if amount)
            found.append((above, (borrows, dominant_share(node), order)))
            node = above
    yield from found


def _best(
    cohort: QuotaNode, left: Mapping[str, Nomination], scores: Mapping[tuple[str, str], Score]
) -> Nomination | None:
    below = [_best(child, left, scores) for child in sorted(cohort.cohorts, key=lambda node: node.name)]
    queues = [left[node.name] for node in sorted(cohort.queues, key=lambda node: node.name) if node.name in left]
    candidates = [each for each in below if each is not None] + queues
    return min(candidates, key=lambda each: scores[cohort.name, each.workload.cluster_queue], default=None)
