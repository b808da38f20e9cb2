"""What an eviction costs, as figures to be compared, most important first.

1. `top`: the highest priority among the victims, and `important`, how many have it: fewest important ones;
2. `gangs`: how many workloads go, each a gang that starts anew as a whole;
3. `priorities`: the sum over the victims, and `lost`: their pods times the whole seconds they have held quota.

Workloads that are evicted already cost nothing: they leave anyway. No victims at all cost `FREE`, less than anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from admission.engine.model import Workload

_BELOW_ALL = -(2**63)


class Cost(NamedTuple):
    """Compared from left to right."""

    top: int
    important: int
    gangs: int
    priorities: int
    lost: int


FREE = Cost(_BELOW_ALL, 0, 0, 0, 0)


def lost_work(workload: Workload, now: float) -> int:
    """Pod-seconds since it got its quota; `now` is epoch seconds."""
    since = now if workload.reserved is None else workload.reserved
    return max(0, int(now - since)) * sum(pod_set.count for pod_set in workload.pod_sets)


def with_one(cost: Cost, priority: int, lost: int) -> Cost:
    """The cost with one victim more."""
    top = max(cost.top, priority)
    important = (cost.important if top == cost.top else 0) + (priority == top)
    return Cost(top, important, cost.gangs + 1, cost.priorities + priority, cost.lost + lost)


def cost_of(victims: Iterable[Workload], now: float) -> Cost:
    """Of all of them."""
    cost = FREE
    for workload in victims:
        if not workload.evicted:
            cost = with_one(cost, workload.priority, lost_work(workload, now))
    return cost
