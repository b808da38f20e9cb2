"""The lines of a ClusterQueue that past usage orders, by the position of the first workload of each.

A heap has an entry for each line. Only lines of which something changed are looked at again: a line whose first workload came
earlier, and those of LocalQueues whose usage changed (`PastUsage.changed_since`). A first workload that left can only move its
line back, which shows when the line reaches the top. Called by cluster_queue.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from admission.engine.queue.past_usage import PastUsage, UsageRules
from admission.engine.queue.positions import Line, Order, Position

_SPARE = 64
"""So many outdated entries are kept beside those of the lines."""


@dataclass(slots=True, eq=False)
class FirstLines:
    """`_filed` has the position of each line in `_heap`, `_changed` the lines to look at again.

    `_lines` are the filed lines by LocalQueue, `_seen` and `_since` what they were filed by.
    """

    _heap: list[tuple[int, float, Order, Line]] = field(default_factory=list)
    _filed: dict[Line, Position] = field(default_factory=dict)
    _lines: dict[str, set[Line]] = field(default_factory=dict)
    _changed: set[Line] = field(default_factory=set)
    _seen: tuple[PastUsage, UsageRules | None, bool] | None = None
    _since: int = 0

    def change(self, line: Line) -> None:
        """Records that another workload of the line may come first."""
        self._changed.add(line)

    def clear(self) -> None:
        """Forgets all lines."""
        self._heap.clear()
        self._filed.clear()
        self._lines.clear()
        self._changed.clear()
        self._seen = None

    def first(
        self, lines: Iterable[Line], first_of: Callable[[Line], Order | None], past: PastUsage, *, counts: bool
    ) -> Order | None:
        """Returns the first workload of all `lines`. `counts`: their past usage counts."""
        self._take_changes(lines, past, counts=counts)
        for line in self._changed:
            self._file(line, first_of(line), past, counts=counts)
        self._changed.clear()
        while self._heap:
            *_, order, line = entry = self._heap[0]
            if self._filed.get(line) == entry[:3]:
                if (now := first_of(line)) == order:
                    return order
                heappop(self._heap)
                self._file(line, now, past, counts=counts)
            else:
                heappop(self._heap)
        return None

    def _take_changes(self, lines: Iterable[Line], past: PastUsage, *, counts: bool) -> None:
        names = past.changed_since(self._since)
        self._since = past.changes
        if self._seen != (past, past.rules, counts) or names is None:
            self.clear()
            self._seen = past, past.rules, counts
            self._changed.update(lines)
        elif counts:
            for name in names:
                self._changed.update(self._lines.get(name, ()))

    def _file(self, line: Line, order: Order | None, past: PastUsage, *, counts: bool) -> None:
        name = line[1]
        if order is None:
            if self._filed.pop(line, None) is not None:
                self._lines[name].discard(line)
                if not self._lines[name]:
                    del self._lines[name]
            return
        position = line[0], past.usage(name) if counts else 0.0, order
        if self._filed.get(line) == position:
            return
        self._filed[line] = position
        self._lines.setdefault(name, set()).add(line)
        heappush(self._heap, (*position, line))
        if len(self._heap) > 2 * len(self._filed) + _SPARE:
            self._heap = [(*filed, each) for each, filed in self._filed.items()]
            heapify(self._heap)
