"""Past usage of LocalQueues, from their status and back: weights and histories are read, and samples taken while leading.

In memory the engine (engine/queue/past_usage.py) keeps it current with each workload. A status is read when the process starts,
and whenever it changes as long as another replica leads. While this one leads, its own figures count, whatever anybody writes
into a status, and replace it with the next write.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final

from admission.controllers.watch.cluster_view import BY_CLUSTER_QUEUE, Views
from admission.controllers.watch.local_copies import Copy
from admission.engine.convert import convert_queues
from admission.engine.cycle.held_capacity import held_beside_quota
from admission.engine.queue.past_usage import LARGEST, UsageRecord
from admission.engine.scheduler_state import SchedulerState
from api.errors import InvalidObject, InvalidQuantity
from api.kube.informers.store import Change, ChangeType
from api.meta import parse_time, rfc3339
from api.queues import LocalQueue
from api.text.quantity import CPU, parse, to_precise_text

log = logging.getLogger(__name__)

_STEP: Final = 100
"""LocalQueues sampled before other tasks run."""
_MOST_RESOURCES: Final = 64
_NAMED: Final = 3


class UsageReader:
    """Tells the engine the weight of each LocalQueue, and the history of those that it does not know.

    `leads`: this replica leads, and its own figures count. It calls `tell_unread` once with a LocalQueue of whose stored usage
    something else than before cannot be read, and what that is.
    """

    def __init__(
        self,
        local_queues: Copy[LocalQueue],
        state: SchedulerState,
        request_cycle: Callable[[], None],
        now: Callable[[], float] = time.time,
        *,
        tell_unread: Callable[[LocalQueue, str], None] = lambda queue, text: None,
    ) -> None:
        self._state, self._request_cycle, self._now = state, request_cycle, now
        self._tell_unread, self.leads = tell_unread, False
        self._unread: dict[str, str] = {}
        local_queues.add_handler(self._local_queue_changed)

    def _local_queue_changed(self, change: Change[LocalQueue]) -> None:
        queues = self._state.queues
        if not queues.past:
            return
        if change.type is ChangeType.DELETED:
            queues.past.drop(change.key)
            self._unread.pop(change.key, None)
        else:
            self._note_unread(change.object)
            before = queues.past.usage(change.key)
            self._read(change.object)
            if queues.past.usage(change.key) == before:
                return
        if queues.reordered(change.object.spec.cluster_queue):
            self._request_cycle()

    def _note_unread(self, queue: LocalQueue) -> None:
        """Tells what cannot be read, if it is news."""
        text = unread_usage(queue)
        if text and text != self._unread.get(queue.key):
            self._tell_unread(queue, text)
        if text:
            self._unread[queue.key] = text
        else:
            self._unread.pop(queue.key, None)

    def _read(self, queue: LocalQueue) -> None:
        past = self._state.queues.past
        try:
            past.set_weight(queue.key, convert_queues.local_queue_weight(queue))
        except InvalidObject as bad:
            log.warning("weight not taken: %s", bad, extra={"local_queue": queue.key})
            past.set_weight(queue.key, 1.0)
        if (stored := stored_usage(queue, self._now())) is not None:
            past.restore(queue.key, *stored, again=not self.leads)


class UsageSampler:
    """Samples the usage of each LocalQueue whose ClusterQueue admits by past usage, while this replica leads.

    `sampled` is called with its key, and `request_cycle` when another workload may be first.
    """

    def __init__(
        self,
        views: Views,
        state: SchedulerState,
        reader: UsageReader,
        sampled: Callable[[str], None],
        request_cycle: Callable[[], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._views, self._state, self._reader = views, state, reader
        self._sampled, self._request_cycle, self._now = sampled, request_cycle, now

    async def run(self) -> None:
        """Samples once per interval until cancelled."""
        rules = self._state.queues.past.rules
        if rules is None:
            return
        self._reader.leads = True
        try:
            while True:
                await self.sample()
                await asyncio.sleep(rules.interval)
        finally:
            self._reader.leads = False

    async def sample(self) -> None:
        """Takes one sample of every LocalQueue, in steps."""
        queues = self._state.queues
        beside = held_beside_quota(self._state.ledger, queues)
        names = [name for name in sorted(self._views.cluster_queues.objects) if queues.orders_by_usage(name)]
        keys = [queue.key for name in names for queue in self._views.local_queues.by_index(BY_CLUSTER_QUEUE, name)]
        for step, key in enumerate((*keys, *queues.past.gone())):
            queues.past.sample(key, self._now(), beside.get(key, {}))
            self._sampled(key)
            if step % _STEP == _STEP - 1:
                await asyncio.sleep(0)
        heads = [name for name in names if queues.reordered(name)]
        if heads:
            self._request_cycle()


def usage_status(record: UsageRecord) -> dict[str, Any]:
    """Returns the status that stores the record, in Kueue's form."""
    status: dict[str, Any] = {"weightedShare": 0}
    if record.updated is not None:
        consumed = {name: to_precise_text(name, amount) for name, amount in sorted(record.consumed.items())}
        status["admissionFairSharingStatus"] = {"consumedResources": consumed, "lastUpdate": rfc3339(record.updated)}
    return status


def stored_usage(queue: LocalQueue, now: float) -> tuple[dict[str, float], float] | None:
    """Returns what the status stores: the amounts by resource in the engine's units, and when (epoch seconds, at most `now`).

    Amounts that cannot be read are left out: the status may be anybody's. None if nothing is stored.
    """
    stored = (queue.status.fair_sharing or {}).get("admissionFairSharingStatus")
    if not isinstance(stored, Mapping):
        return None
    try:
        updated = parse_time(stored.get("lastUpdate"))
    except (ValueError, TypeError):
        log.warning(
            "lastUpdate of past usage not taken: %.64r", stored.get("lastUpdate"), extra={"local_queue": queue.key}
        )
        updated = None
    given, consumed = stored.get("consumedResources"), dict[str, float]()
    given = given if isinstance(given, Mapping) else {}
    for name in sorted(given)[:_MOST_RESOURCES]:
        amount = _amount(name, given[name])
        if amount is None:
            log.warning("past usage not taken: %s: %.64r", name, given[name], extra={"local_queue": queue.key})
        else:
            consumed[name] = amount
    return consumed, now if updated is None or not isfinite(updated) else min(updated, now)


def unread_usage(queue: LocalQueue) -> str:
    """Returns which fields of the stored usage cannot be read, at most three of them; empty if there are none."""
    stored = (queue.status.fair_sharing or {}).get("admissionFairSharingStatus")
    if not isinstance(stored, Mapping):
        return ""
    wrong = []
    try:
        parse_time(stored.get("lastUpdate"))
    except (ValueError, TypeError):
        wrong.append(f"lastUpdate: {stored.get('lastUpdate')!r:.64}: allowed: a time in RFC 3339")
    given = stored.get("consumedResources") or {}
    if not isinstance(given, Mapping):
        wrong.append(f"consumedResources: {given!r:.64}: allowed: amounts by resource")
        given = {}
    wrong += [
        f"consumedResources.{name:.64}: {given[name]!r:.64}: allowed: an amount of at least 0"
        for name in sorted(given)[:_MOST_RESOURCES]
        if _amount(name, given[name]) is None
    ]
    if len(given) > _MOST_RESOURCES:
        wrong.append(f"consumedResources: {len(given)} resources: allowed: at most {_MOST_RESOURCES}")
    more = f"; and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
    return "; ".join(wrong[:_NAMED]) + more


def _amount(resource: str, text: object) -> float | None:
    try:
        value = parse(text) if isinstance(text, str | int | float) else -1
    except InvalidQuantity:
        return None
    scaled = value * (1000 if resource == CPU else 1)
    return float(min(scaled, int(LARGEST))) if scaled >= 0 else None
