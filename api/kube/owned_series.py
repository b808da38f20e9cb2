"""Metric series that belong to a queue or cohort, and are removed with it.

A counter or histogram keeps the series of each combination of labels for ever. If a label names an object that tenants create
and delete, all of them would stay in memory and on the metrics page. `owned` declares such a metric; `keep_only` periodically
removes the series of deleted objects. A later increment creates a new series, which the next call removes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from prometheus_client.metrics import MetricWrapperBase

from api.meta import object_key

M = TypeVar("M", bound=MetricWrapperBase)

PERIOD: Final = 60.0
"""Seconds between two removals, long enough for a scraper to read the last value."""


class OwnerKind(Enum):
    """Kinds of owners of series; the value is the labels that name the owner."""

    CLUSTER_QUEUE = ("cluster_queue",)
    PREEMPTING_QUEUE = ("preempting_cluster_queue",)
    LOCAL_QUEUE = ("namespace", "name")
    COHORT = ("cohort",)


Living = Mapping[OwnerKind, Collection[str]]
"""Keys of existing objects (as in informers) by kind."""


class OwnedSeries(Generic[M]):
    """A metric that tracks its series by owner."""

    def __init__(self, metric: M, labels: Sequence[str]) -> None:
        self.metric = metric
        self.kind = next(kind for kind in OwnerKind if set(kind.value) <= set(labels))
        self._places = [labels.index(label) for label in self.kind.value]
        self._series: dict[str, set[tuple[str, ...]]] = {}
        _ALL.append(self)

    def labels(self, *values: str) -> M:
        """Returns the series with these label values."""
        self._series.setdefault(self._owner(values), set()).add(values)
        return self.metric.labels(*values)

    def keep_only(self, living: Collection[str]) -> None:
        """Removes the series of owners that are missing from `living`."""
        for owner in [owner for owner in self._series if owner not in living]:
            for values in self._series.pop(owner):
                self.metric.remove(*values)

    def _owner(self, values: Sequence[str]) -> str:
        names = [values[place] for place in self._places]
        return object_key(*names) if len(names) > 1 else names[0]


_ALL: Final[list[OwnedSeries[Any]]] = []


def owned(make: Callable[..., M], name: str, text: str, labels: Sequence[str], **options: Any) -> OwnedSeries[M]:
    """Returns a counter or histogram (`make`) whose labels name its owner. Raises StopIteration if none does."""
    return OwnedSeries(make(name, text, labels, **options), labels)


def keep_only(living: Living) -> None:
    """Removes series of missing owners from all metrics, for the kinds of owners in `living`."""
    for one in _ALL:
        if one.kind in living:
            one.keep_only(living[one.kind])


async def keep(living: Callable[[], Living]) -> None:
    """Removes series every `PERIOD` seconds until cancelled."""
    while True:
        await asyncio.sleep(PERIOD)
        keep_only(living())
