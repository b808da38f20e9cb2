"""Reports in each AdvanceReservation whether its nodes are held, charges them at its start and frees them at its end.

The condition `Active` counts the nodes and names workloads that run on them beyond the start. Those run on: an administrator
who needs the nodes must end them. It also says what is charged to the ClusterQueue, and by how much that exceeds what the queue
may use. It runs on the leader only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from admission.controllers.watch.advance_reservations.view import advance_reservation
from admission.controllers.watch.feed import Feed
from admission.controllers.watch.local_copies import Copy
from admission.controllers.watch.rounds import steps_over
from admission.controllers.write.active_writer import write_active
from admission.engine.features.advance_reservations.reservation import AdvanceReservation as Hold
from admission.engine.ledger.ledger import Ledger
from admission.engine.listed import listed
from admission.engine.model import FlavorResource
from admission.engine.quota.cohorts import available
from api.advance_reservations import AdvanceReservation
from api.errors import InvalidObject
from api.kube.client import Kube
from api.kube.informers.store import Change
from api.kube.reconcile import Reconciler
from api.kube.resources import ADVANCE_RESERVATIONS
from api.kube.turns import Turns
from api.names import ReservationReason
from api.text.quantity import to_text

_LOOK_AGAIN: Final = 30.0
"""Seconds until the nodes and the workloads on them are read again."""
_NAMED: Final = 5
_COMPARED: Final = 32
"""Other reservations that are compared with one."""


class AdvanceReservationController:
    """Reconciles AdvanceReservations. `wall` returns epoch seconds.

    `usage_changed` is called with a ClusterQueue for whose reservations the charge may have changed.
    """

    def __init__(
        self,
        kube: Kube,
        reservations: Copy[AdvanceReservation],
        ledger: Ledger,
        feed: Feed,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._kube, self._reservations, self._ledger, self._feed, self._wall = kube, reservations, ledger, feed, wall
        self._reconciler = Reconciler("advance reservations", self._reconcile, workers=1)
        self.usage_changed: Callable[[str], None] = lambda queue: None
        reservations.add_handler(self._changed)

    def _changed(self, change: Change[AdvanceReservation]) -> None:
        self._reconciler.add(change.key)
        for one in (change.object, change.old):
            if one is not None and one.spec.cluster_queue:
                self.usage_changed(one.spec.cluster_queue)

    async def run(self) -> None:
        """Runs until cancelled."""
        for name in self._reservations.objects:
            self._reconciler.add(name)
        await self._reconciler.run()

    async def _reconcile(self, name: str) -> float | None:
        stored = self._reservations.objects.get(name)
        if stored is None:
            return None
        try:
            reservation = advance_reservation(stored)
        except InvalidObject as bad:
            await self._say(stored, "False", ReservationReason.INVALID, f"{bad.field}: {bad.given!r}: {bad.allowed}")
            return None
        now = self._wall()
        if reservation.end <= now:
            self._feed.set_node_hold(name, None)
            if reservation.queue:
                self.usage_changed(reservation.queue)
            await self._say(stored, "False", ReservationReason.OVER, f"over since {stored.spec.end}")
            return None
        if now >= reservation.start and not self._begun(name):
            self._feed.set_node_hold(name, reservation)
            await self._feed.settled()
        await self._say(stored, "True", ReservationReason.HELD, await self._state(reservation, now))
        if reservation.queue:
            self.usage_changed(reservation.queue)
        changes = [at - now for at in (reservation.start, reservation.end) if at > now]
        return min(_LOOK_AGAIN, *changes)

    def _begun(self, name: str) -> bool:
        known = self._ledger.node_holds.get(name)
        return known is not None and known.begun

    async def _state(self, reservation: Hold, now: float) -> str:
        nodes = await self._nodes(reservation)
        if not nodes:
            labels = ", ".join(f"{key}={value}" for key, value in sorted(reservation.labels.items()))
            return f"no node has the label(s) {labels}"
        held = "held" if now >= reservation.start else "held for workloads that end before the start"
        text, beyond = f"{len(nodes)} node(s) {held}", await self._beyond(reservation, nodes, now)
        text += await self._shared(reservation, nodes) + self._charge(reservation, nodes)
        if not beyond:
            return text
        return f"{text}; {len(beyond)} workload(s) there may run beyond the start: {listed(beyond, _NAMED)}"

    async def _shared(self, reservation: Hold, nodes: set[str]) -> str:
        """Says which of its nodes other reservations hold at the same time; empty if none. A job can name one of them only."""
        others = [
            one
            for _, one in sorted(self._ledger.node_holds.items())
            if one.name != reservation.name and one.start < reservation.end and reservation.start < one.end
        ][:_COMPARED]
        turns, count, names = Turns(), 0, set[str]()
        for name in nodes if others else ():
            record = self._ledger.capacity.nodes.get(name)
            labels = {} if record is None or record.node is None else record.node.labels
            overlapping = {one.name for one in others if one.holds(labels)}
            count, names = count + bool(overlapping), names | overlapping
            await turns.give_way()
        if not names:
            return ""
        return f"; {count} of them are held by {listed(sorted(names), _NAMED)} at the same time"

    def _charge(self, reservation: Hold, nodes: set[str]) -> str:
        """Says what is charged to the reservation's ClusterQueue, and what is wrong with that; empty if it names none."""
        name, quota = reservation.queue, self._ledger.quota
        if not name:
            return ""
        if quota.spec(name) is None:
            return f"; no quota is charged: ClusterQueue {name} not found"
        if not self._begun(reservation.name):
            return f"; their quota is charged to ClusterQueue {name} from the start"
        paid = [one for key in nodes if (one := self._ledger.reserved.nodes.get(key)) is not None]
        others = sorted({one.hold for one in paid} - {reservation.name})
        mine = sum(one.hold == reservation.name for one in paid)
        charge = self._ledger.reserved.charge_of(reservation.name)
        parts = [f"ClusterQueue {name} is charged for {mine} of them: {_amounts(charge)}"]
        if len(paid) < len(nodes):
            parts.append(
                f"{len(nodes) - len(paid)} have no resources that it covers in a flavor whose topology ends at hosts"
            )
        if others:
            parts.append(f"{len(paid) - mine} are charged to {', '.join(others[:_NAMED])}")
        node = quota.node(name)
        beyond = {fr: over for fr in charge if node is not None and (over := -available(node, fr)) > 0}
        if beyond:
            parts.append(f"that is more than its quota, which admits nothing more until {_amounts(beyond)} are free")
        return "; " + "; ".join(parts)

    async def _nodes(self, reservation: Hold) -> set[str]:
        """Returns the names of the nodes that it holds. In turns: there may be 15,000."""
        turns, nodes = Turns(), set()
        for name, record in steps_over(self._ledger.capacity.nodes):
            if record.node is not None and reservation.holds(record.node.labels):
                nodes.add(name)
            await turns.give_way()
        return nodes

    async def _beyond(self, reservation: Hold, nodes: set[str], now: float) -> list[str]:
        """Returns the running workloads with pods on these nodes that may still run at the start, and may not use them, by key.
        In turns: there may be 75,000 pods.
        """
        turns, keys = Turns(), set()
        for _, pod in steps_over(self._ledger.allocations.pods):
            if pod.node in nodes and pod.workload is not None:
                keys.add(pod.workload)
            await turns.give_way()
        there = ((key, self._ledger.workload(key)) for key in sorted(keys))
        return [key for key, workload in there if workload is not None and not reservation.usable_by(workload, now)]

    async def _say(self, reservation: AdvanceReservation, status: str, reason: str, message: str) -> None:
        said = status, reason, message
        conditions = reservation.status.conditions
        await write_active(self._kube, ADVANCE_RESERVATIONS, reservation.metadata, conditions, said, self._wall())


def _amounts(sums: Mapping[FlavorResource, int]) -> str:
    """Returns amounts of resources by flavor as text."""
    texts = [
        f"{to_text(resource, amount)} {resource} of flavor {flavor}"
        for (flavor, resource), amount in sorted(sums.items())
    ]
    return listed(texts, _NAMED) if texts else "nothing, all is in use by its workloads"
