"""What a forecast needs of ledger and queues, as values that no later event changes.

A running workload is its usage of quota and when it began; a waiting one is its order and, for each resource group, what it
would use on each flavor that it may have. Called by the controller, with a pause between queues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from admission.engine.flavors.eligible import unsuitable
from admission.engine.flavors.search import topology_implied, total_requests
from admission.engine.forecast.run_times import RunEstimate
from admission.engine.ledger import Ledger
from admission.engine.model import ClusterQueue, Cohort, FlavorResource, PodSet, Workload
from admission.engine.queue.cluster_queue import Order, order_of
from admission.engine.queue.queues import PendingQueues

Usage = dict[FlavorResource, int]
Choices = tuple[tuple[Usage, ...], ...]
"""For each part of a request (a pod set and a resource group), what it uses on each flavor, in the order of the search."""

Estimates = Callable[[Workload], RunEstimate | None]


@dataclass(frozen=True, slots=True)
class Running:
    """A workload with quota. `since` is when it began (epoch seconds)."""

    key: str
    queue: str
    usage: Usage
    since: float
    estimate: RunEstimate | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting workload. `order` sorts those of a queue. `placed`: it must also fit a domain, which a replay does not see."""

    key: str
    queue: str
    order: tuple[int, float, str, str]
    choices: Choices
    not_before: float
    placed: bool
    estimate: RunEstimate | None


@dataclass(frozen=True, slots=True)
class ForecastInputs:
    """A moment (epoch seconds): queues and cohorts, and what runs and waits in them, each sorted."""

    now: float
    specs: tuple[Cohort | ClusterQueue, ...]
    running: tuple[Running, ...]
    waiting: tuple[Waiting, ...]


def inputs_of(
    ledger: Ledger, queues: PendingQueues, now: float, estimates: Estimates, pause: Callable[[], None] = lambda: None
) -> ForecastInputs:
    """Returns the inputs at `now`. What changes during a pause may be counted in one queue and not in another."""
    specs = tuple(ledger.quota.specs())
    running: list[Running] = []
    waiting: list[Waiting] = []
    for queue in sorted((one for one in specs if isinstance(one, ClusterQueue)), key=lambda one: one.name):
        for taken in ledger.charged_to(queue.name):
            workload = taken.workload
            since = workload.admitted if workload.admitted is not None else workload.reserved
            usage = ledger.returned(workload.key, taken.admission)
            running.append(
                Running(workload.key, queue.name, usage, now if since is None else since, estimates(workload))
            )
            pause()
        running += _reserved(ledger, queue.name, now)
        if queue.inactive is not None:
            continue
        line = [one for one in (*queues.active(queue.name), *queues.inadmissible(queue.name)) if _may_start(one)]
        # The k-th by past usage takes the k-th place that its queue has among the others.
        by_usage = sorted(line, key=queues.position) if queues.orders_by_usage(queue.name) else line
        places = sorted(map(order_of, line)) if queues.orders_by_usage(queue.name) else list(map(order_of, line))
        for order, workload in zip(places, by_usage, strict=True):
            waiting.append(_waiting(workload, order, queue, ledger, estimates(workload)))
            pause()
    waiting.sort(key=lambda one: one.order)
    return ForecastInputs(now, specs, tuple(running), tuple(waiting))


def _reserved(ledger: Ledger, queue: str, now: float) -> list[Running]:
    """Returns the quota that advance reservations charge until their end, with what workloads draw on it."""
    total: dict[str, Usage] = {}
    for paid in ledger.reserved.nodes.values():
        if paid.queue == queue:
            amounts = total.setdefault(paid.reservation, {})
            for fr, amount in paid.amounts.items():
                amounts[fr] = amounts.get(fr, 0) + amount
    return [
        Running(f"{name} (reservation)", queue, amounts, now, RunEstimate.exactly(ledger.reservations[name].end - now))
        for name, amounts in sorted(total.items())
        if name in ledger.reservations
    ]


def _may_start(workload: Workload) -> bool:
    return workload.blocked is None and workload.defect is None


def _waiting(
    workload: Workload, order: Order, queue: ClusterQueue, ledger: Ledger, estimate: RunEstimate | None
) -> Waiting:
    placed = any(one.topology is not None and one.topology.required is not None for one in workload.pod_sets)
    choices = _choices(workload, queue, ledger)
    return Waiting(workload.key, queue.name, order, choices, workload.not_before, placed, estimate)


def _choices(workload: Workload, queue: ClusterQueue, ledger: Ledger) -> Choices:
    """Returns the parts of the request; a part without choice is one that fits nowhere."""
    implied, parts = topology_implied(queue, ledger.flavors), []
    for pod_set in workload.pod_sets:
        wanted = total_requests(queue, pod_set)
        uncovered = [name for name, amount in wanted.items() if amount and queue.group_of(name) is None]
        if uncovered and not queue.ignores_uncovered:
            return ((),)
        parts += _parts(pod_set, wanted, queue, ledger, implied)
    return tuple(parts)


def _parts(
    pod_set: PodSet, wanted: dict[str, int], queue: ClusterQueue, ledger: Ledger, implied: bool
) -> list[tuple[Usage, ...]]:
    parts = []
    for group in queue.groups:
        asked = {name: amount for name, amount in wanted.items() if amount and name in group.resources}
        if not asked:
            continue
        parts.append(
            tuple(
                {(each.flavor, name): amount for name, amount in asked.items()}
                for each in group.flavors
                if (flavor := ledger.flavors.get(each.flavor)) is not None
                and unsuitable(pod_set, flavor, group.resources, implied) is None
            )
        )
    return parts
