"""What a forecast needs of ledger and queues, as values that no later event changes.

A running workload is its usage of quota and when it began; a waiting one is its order and, for each resource group, what it
would use on each flavor that it may have, with the place that it needs there. hosts.py has the hosts. Called by the
controller, with a pause between queues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from admission.engine.features.forecast.hosts import FlavorHosts, GangPlace, HostReader
from admission.engine.features.forecast.run_times import RunEstimate
from admission.engine.flavors.eligible import unsuitable, wants_topology
from admission.engine.flavors.search import placement_groups, topology_implied, total_requests
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, Cohort, FlavorResource, PodSet, Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.positions import Order
from admission.engine.queue.queues import PendingQueues
from admission.engine.requests import placement_request

Usage = dict[FlavorResource, int]

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
class Choices:
    """What a placement group of pod sets may use: for each resource group its usage on each flavor, in the order of the search.

    `places`: by flavor, the place that it needs there; None if quota is all that it needs.
    """

    parts: tuple[tuple[Usage, ...], ...]
    places: Mapping[str, GangPlace] | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting workload."""

    key: str
    queue: str
    order: tuple[int, float, str, str]
    """Sorts those of a queue."""
    choices: tuple[Choices, ...]
    not_before: float
    known: bool
    """Whether a replay sees all that decides about its place."""
    estimate: RunEstimate | None
    reserved: float | None = None
    """The start that is reserved for it (epoch seconds)."""

    @property
    def placed(self) -> bool:
        """Whether it needs a place on a topology."""
        return any(one.places is not None for one in self.choices)


@dataclass(frozen=True, slots=True)
class ForecastInputs:
    """A moment (epoch seconds): queues and cohorts, and what runs and waits in them, each sorted; and hosts by flavor."""

    now: float
    specs: tuple[Cohort | ClusterQueue, ...]
    running: tuple[Running, ...]
    waiting: tuple[Waiting, ...]
    hosts: Mapping[str, FlavorHosts]


def inputs_of(
    ledger: Ledger, queues: PendingQueues, now: float, estimates: Estimates, pause: Callable[[], None] = lambda: None
) -> ForecastInputs:
    """Returns the inputs at `now`. What changes during a pause may be counted in one queue and not in another.

    Raises LookupError if something disappeared meanwhile that had been read before.
    """
    specs, hosts = tuple(ledger.quota.specs()), HostReader(ledger)
    running: list[Running] = []
    waiting: list[Waiting] = []
    for queue in sorted((one for one in specs if isinstance(one, ClusterQueue)), key=lambda spec: spec.name):
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
            reader = _RequestReader(ledger, hosts, queue, now)
            reserved = queues.starts.start_of(workload)
            waiting.append(reader.waiting(workload, order, estimates(workload), reserved))
            pause()
    waiting.sort(key=lambda workload: workload.order)
    held = [key for one in waiting if (key := hold_key(HoldKind.PLACE, one.key)) in ledger.holds]
    flavor_hosts = hosts.hosts([*(one.key for one in running), *held], pause)
    return ForecastInputs(now, specs, tuple(running), tuple(waiting), flavor_hosts)


def _reserved(ledger: Ledger, queue: str, now: float) -> list[Running]:
    """Returns the quota that holds of nodes charge until their end, with what workloads draw on it."""
    total: dict[str, Usage] = {}
    for paid in ledger.reserved.nodes.values():
        if paid.queue == queue:
            amounts = total.setdefault(paid.hold, {})
            for fr, amount in paid.amounts.items():
                amounts[fr] = amounts.get(fr, 0) + amount
    return [
        Running(f"{name} (reservation)", queue, amounts, now, RunEstimate.exactly(ledger.node_holds[name].end - now))
        for name, amounts in sorted(total.items())
        if name in ledger.node_holds
    ]


def _may_start(workload: Workload) -> bool:
    return workload.blocked is None and workload.defect is None


class _RequestReader:
    """Reads what workloads of one queue wait for."""

    def __init__(self, ledger: Ledger, hosts: HostReader, queue: ClusterQueue, now: float) -> None:
        self._ledger, self._hosts, self._queue, self._now = ledger, hosts, queue, now
        self._implied = topology_implied(queue, ledger.flavors)

    def waiting(
        self, workload: Workload, order: Order, estimate: RunEstimate | None, reserved: float | None
    ) -> Waiting:
        """Returns the waiting workload."""
        choices = self._choices(workload)
        places = [place for each in choices for place in (each.places or {}).values()]
        known = all(place.known for place in places)
        return Waiting(workload.key, self._queue.name, order, choices, workload.not_before, known, estimate, reserved)

    def _choices(self, workload: Workload) -> tuple[Choices, ...]:
        """Returns the parts of the request; a part without choice is one that fits nowhere."""
        choices = []
        for members in placement_groups(workload.pod_sets):
            wanted: dict[str, int] = {}
            for member in members:
                for name, amount in total_requests(self._queue, member).items():
                    wanted[name] = wanted.get(name, 0) + amount
            uncovered = [name for name, amount in wanted.items() if amount and self._queue.group_of(name) is None]
            if uncovered and not self._queue.ignores_uncovered:
                return (Choices(((),)),)
            choices.append(Choices(self._parts(members, wanted), self._places(workload, members)))
        return tuple(choices)

    def _parts(self, members: Sequence[PodSet], wanted: dict[str, int]) -> tuple[tuple[Usage, ...], ...]:
        parts = []
        for group in self._queue.groups:
            asked = {name: amount for name, amount in wanted.items() if amount and name in group.resources}
            if not asked:
                continue
            suitable = [
                each.flavor
                for each in group.flavors
                if (flavor := self._ledger.flavors.get(each.flavor)) is not None
                and all(unsuitable(member, flavor, group.resources, self._implied) is None for member in members)
            ]
            parts.append(tuple([{(flavor, name): amount for name, amount in asked.items()} for flavor in suitable]))
        return tuple(parts)

    def _places(self, workload: Workload, members: Sequence[PodSet]) -> dict[str, GangPlace] | None:
        placed = [each for each in members if each.count and wants_topology(each, self._implied)]
        if not placed:
            return None
        flavors, places = self._ledger.flavors, {}
        for name in self._queue.flavors:
            if name in flavors and flavors[name].topology is not None:
                requests = [placement_request(workload, self._queue, each, name, flavors, self._now) for each in placed]
                if (place := self._hosts.place(requests)) is not None:
                    places[name] = place
        return places
