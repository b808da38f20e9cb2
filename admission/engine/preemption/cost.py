"""The cost of evictions: figures that are compared in this order.

1. `top`: the highest priority among the victims; `at_top`: how many victims have it;
2. `gangs`: the number of victims, each a gang that restarts as a whole;
3. `priorities`: the sum of their priorities; `lost`: the sum of pods * whole seconds since they reserved quota.

Workloads that are already being evicted cost nothing. An empty set costs `FREE`, less than any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from admission.engine.model import Workload

_BELOW_ALL = -(2**63)


class Cost(NamedTuple):
    """The figures, compared from left to right."""

    top: int
    at_top: int
    gangs: int
    priorities: int
    lost: int


FREE = Cost(_BELOW_ALL, 0, 0, 0, 0)


def lost_work(workload: Workload, now: float) -> int:
    """Returns the pod-seconds since the workload reserved quota; `now` is in epoch seconds."""
    since = now if workload.reserved is None else workload.reserved
    return max(0, int(now - since)) * sum(pod_set.count for pod_set in workload.pod_sets)


def with_one(cost: Cost, priority: int, lost: int) -> Cost:
    """Returns the cost with one more victim."""
    top = max(cost.top, priority)
    at_top = (cost.at_top if top == cost.top else 0) + (priority == top)
    return Cost(top, at_top, cost.gangs + 1, cost.priorities + priority, cost.lost + lost)


def cost_of(victims: Iterable[Workload], now: float) -> Cost:
    """Returns the cost of all these victims."""
    cost = FREE
    for workload in victims:
        if not workload.evicted:
            cost = with_one(cost, workload.priority, lost_work(workload, now))
    return cost
