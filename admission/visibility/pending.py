"""The pending workloads of a queue with their positions, as Kueue's PendingWorkloadsSummary. Pure; server.py calls it.

A summary of 100,000 workloads is sorted and encoded in short parts: a thread holds the interpreter, and so the event loop,
during each call of C code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any, Final

import msgspec

from admission.engine.model import Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.pending import Positions
from admission.engine.reasons import Reason
from admission.visibility.api_documents import GROUP, SUMMARY
from api import workloads as api
from api.errors import InvalidObject
from api.meta import object_key

DEFAULT_LIMIT, MOST = 1000, 100_000
"""Workloads per answer: without a limit in the query (or with 0), and at most."""
_PART: Final = 1000
"""Workloads that are sorted or encoded by one call."""
_LONGEST_NUMBER: Final = 19
NOT_IN_LINE: Final = frozenset((Reason.DEACTIVATED, Reason.OWNER_NOT_MANAGED))
"""Blocks that only a change of the Workload or its owner ends: such a workload has no position in its queue."""


@dataclass(frozen=True, slots=True)
class Page:
    """The part of the list that a query asks for."""

    offset: int = 0
    limit: int = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class LocalQueueName:
    """A LocalQueue, whose workloads alone are listed."""

    namespace: str
    name: str


def page(query: Mapping[str, str]) -> Page:
    """Returns the page of a query. As in Kueue, limit 0 is the default and negative numbers count as 0.

    Raises InvalidObject for a value that is not a number of 64 bits.
    """
    limit, offset = _number(query, "limit"), max(0, _number(query, "offset"))
    return Page(offset, min(MOST, max(0, limit)) if limit else DEFAULT_LIMIT)


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_NUMBER and int(digits) < 2**63):
        raise InvalidObject(name, text[:64], "must be an integer of 64 bits", "query")
    return int(text)


def in_line(workloads: Iterator[Workload], queue: str) -> list[Workload]:
    """Returns the workloads of the ClusterQueue that have a position, in no particular order."""
    return [
        each
        for each in workloads
        if each.cluster_queue == queue and (each.blocked is None or each.blocked[0] not in NOT_IN_LINE)
    ]


def summary(
    version: str,
    waiting: Sequence[Workload],
    look_up: Callable[[str], api.Workload | None],
    page: Page,
    only: LocalQueueName | None = None,
    *,
    by: Positions = lambda workload: (0, 0.0, order_of(workload)),
) -> bytes:
    """Returns the JSON of a page of the workloads `waiting` in one ClusterQueue; `look_up` finds one by its key.

    Positions count from 0, in the order of evaluation (`by`). `only` lists the workloads of one LocalQueue.
    """
    items: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for item in _items(waiting, look_up, page, only, by):
        items.append(item)
        if len(items) == _PART:
            parts.append(msgspec.json.encode(items)[1:-1])
            items = []
    if items:
        parts.append(msgspec.json.encode(items)[1:-1])
    head = {"kind": SUMMARY, "apiVersion": f"{GROUP}/{version}", "metadata": {}}
    return msgspec.json.encode(head)[:-1] + b',"items":[' + b",".join(parts) + b"]}"


def _items(
    waiting: Sequence[Workload],
    look_up: Callable[[str], api.Workload | None],
    page: Page,
    only: LocalQueueName | None,
    by: Positions,
) -> Iterator[dict[str, Any]]:
    before: Counter[str] = Counter()
    end = page.offset + page.limit
    for position, each in enumerate(_sorted(waiting, by)):
        workload = look_up(each.key)
        if workload is None:
            continue  # deleted since
        meta = workload.metadata
        queue = object_key(meta.namespace or "", workload.spec.queue_name)
        local, before[queue] = before[queue], before[queue] + 1
        if only is not None and queue != object_key(only.namespace, only.name):
            continue
        place = position if only is None else local
        if place >= end:
            return
        if place >= page.offset:
            yield _item(workload, position, local)


def _item(workload: api.Workload, position: int, local: int) -> dict[str, Any]:
    meta = workload.metadata
    owners = [
        {"apiVersion": each.api_version, "kind": each.kind, "name": each.name, "uid": each.uid}
        for each in meta.owner_references
    ]
    named = {"name": meta.name, "namespace": meta.namespace, "creationTimestamp": meta.creation_timestamp}
    return {
        "metadata": {**named, "ownerReferences": owners} if owners else named,
        "priority": workload.spec.priority or 0,
        "localQueueName": workload.spec.queue_name,
        "positionInClusterQueue": position,
        "positionInLocalQueue": local,
    }


def _sorted(waiting: Sequence[Workload], by: Positions) -> Iterator[Workload]:
    parts = [sorted(waiting[at : at + _PART], key=by) for at in range(0, len(waiting), _PART)]
    return merge(*parts, key=by)
