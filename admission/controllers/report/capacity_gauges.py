"""Publishes the capacity of each flavor with a topology and of its domains, and the largest gang that still fits.

Every `PERIOD` seconds it adds up the nodes of each flavor, in steps between which the loop runs; a scrape only reads the
gauges. Series are bounded: a flavor has at most MOST_RESOURCES resources in five states, a domain the same, and domains have
series only at levels with at most `limit` domains. Levels with more, such as hosts, count in their parents. Series of a flavor,
level or domain that is gone are removed. A task of the leader (assembly.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import Final

from admission.controllers.report.gauges import Table, units
from admission.engine.ledger.ledger import Ledger
from admission.engine.queue.queues import PendingQueues
from admission.engine.topology.allocation.capacity import parts
from admission.engine.topology.allocation.footprint import Footprint
from admission.engine.topology.questions.figures import CapacityFigures, FlavorFigures, LevelFigures
from admission.metrics import capacity as metrics
from api.kube.turns import Turns

log = logging.getLogger(__name__)

PERIOD: Final = 15.0
"""Seconds between two sums: half of the usual time between two scrapes."""
_LOOKS: Final = 15
"""Checks per period for new and removed flavors, which need not wait until its end."""
_PART, _SERIES = 10, 50
"""Domains whose values are collected, and series that are set or removed, in one step: a millisecond, or several just after a
snapshot, when the process copies each page of memory that it touches.
"""


class CapacityGauges:
    """The gauges of all flavors. A level whose domains number more than `limit` has no series per domain; 0 turns these series
    off.
    """

    def __init__(self, ledger: Ledger, queues: PendingQueues, limit: int) -> None:
        self._ledger, self._queues, self._limit = ledger, queues, limit
        self._figures = CapacityFigures(ledger.capacity)
        self._shown: dict[str, Table] = {}

    async def run(self) -> None:
        """Runs until cancelled, then removes all series: another replica leads by then, and sums would count both."""
        try:
            await self._run()
        finally:
            turns = Turns()  # there may be a hundred thousand
            for shown in self._shown.values():
                while shown:
                    (gauge, labels), _ = shown.popitem()
                    gauge.remove(*labels)
                    await turns.give_way()
            self._shown = {}

    async def _run(self) -> None:
        while True:
            for flavor in sorted(self._ledger.capacity.trees.keys() | self._shown.keys()):
                try:
                    await self._renew(flavor)
                except Exception:  # a failure to publish figures must not end the controller
                    log.exception("the figures of a flavor could not be computed", extra={"flavor": flavor})
            for _ in range(_LOOKS):
                await asyncio.sleep(PERIOD / _LOOKS)
                if self._ledger.capacity.trees.keys() != self._shown.keys():
                    break

    def renewed(self, flavor: str) -> Iterator[None]:
        """Renews the series of a flavor in steps; yields between two of them."""
        figures = yield from self._figures.of(flavor, self._held(), self._reserved())
        if figures is None and flavor in self._ledger.capacity.trees:
            return  # its nodes changed meanwhile: the series stay until the next time
        shown = self._shown.setdefault(flavor, {})
        gone = set(shown)
        for table in () if figures is None else self._tables(flavor, figures):
            gone -= table.keys()
            yield
            for part in parts([key for key, value in table.items() if shown.get(key) != value], _SERIES):
                for gauge, labels in part:
                    gauge.labels(*labels).set(table[gauge, labels])
                    shown[gauge, labels] = table[gauge, labels]
                yield
        for part in parts(list(gone), _SERIES):
            for gauge, labels in part:
                gauge.remove(*labels)
                del shown[gauge, labels]
            yield
        if figures is None:
            del self._shown[flavor]
            self._figures.forget(flavor)

    async def _renew(self, flavor: str) -> None:
        longest, began = 0.0, time.perf_counter()
        for _ in self.renewed(flavor):
            longest = max(longest, time.perf_counter() - began)
            await asyncio.sleep(0)
            began = time.perf_counter()
        metrics.FIGURES_SECONDS.observe(max(longest, time.perf_counter() - began))

    def _held(self) -> Iterator[Footprint]:
        """Yields what is held (ledger/holds.py).

        The keys are read in the same step as the footprints, since a host may be released between two steps.
        """
        for key in sorted(self._ledger.holds.keys):
            yield self._ledger.footprint(key)

    def _reserved(self) -> Iterator[Footprint]:
        """Yields the capacity reserved for preemptors, which no other workload gets even after the victims have left."""
        for workload, reservation in self._queues.capacity_reservations():
            if (claim := self._ledger.claim(workload, reservation.admission)) is not None:
                yield claim

    def _tables(self, flavor: str, figures: FlavorFigures) -> Iterator[Table]:
        """Yields the series in parts."""
        totals: Table = {
            (metrics.FLAVOR_CAPACITY, (flavor, resource, state)): units(resource, amount)
            for resource, states in figures.totals.items()
            for state, amount in states.items()
        }
        for each in figures.levels:
            totals |= {(metrics.LARGEST_GANG, (flavor, each.level, shape)): pods for shape, pods in each.gangs.items()}
            hidden = 0 if len(each.paths) <= self._limit else len(each.paths)
            totals[metrics.HIDDEN_DOMAINS, (flavor, each.level)] = hidden
        yield totals
        for each in figures.levels:
            if len(each.paths) <= self._limit:
                for first in range(0, len(each.paths), _PART):
                    yield _domains(flavor, each, slice(first, first + _PART))


def _domains(flavor: str, figures: LevelFigures, part: slice) -> Table:
    domains = ["/".join(path) for path in figures.paths[part]]
    return {
        (metrics.DOMAIN_CAPACITY, (flavor, figures.level, domain, resource, state)): units(resource, amount)
        for resource, states in figures.amounts.items()
        for state, amounts in states.items()
        for domain, amount in zip(domains, amounts[part].tolist(), strict=True)
    }
