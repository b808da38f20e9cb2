"""Metric series that are of one queue or cohort, and go with it.

A counter or histogram keeps the series of each combination of labels for ever: where a label names an object that tenants may
make and delete, every one that ever was would stay in memory and on the metrics page. `owned` declares such a metric;
`keep_only` takes away, now and then, the series whose object is gone. What is counted for it after that makes a new series,
which goes the next time.
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
"""Seconds between two looks: a scraper has seen the last value by then."""


class OwnerKind(Enum):
    """What a series can be of; the value is the labels that name it."""

    CLUSTER_QUEUE = ("cluster_queue",)
    PREEMPTING_QUEUE = ("preempting_cluster_queue",)
    LOCAL_QUEUE = ("namespace", "name")
    COHORT = ("cohort",)


Living = Mapping[OwnerKind, Collection[str]]
"""The objects that there are, by the key that an informer gives them."""


class OwnedSeries(Generic[M]):
    """A metric whose series are remembered by their owner."""

    def __init__(self, metric: M, labels: Sequence[str]) -> None:
        self.metric = metric
        self.kind = next(kind for kind in OwnerKind if set(kind.value) <= set(labels))
        self._places = [labels.index(label) for label in self.kind.value]
        self._series: dict[str, set[tuple[str, ...]]] = {}
        self._missed: dict[str, int] = {}
        _ALL.append(self)

    def labels(self, *values: str) -> M:
        """The series of these values."""
        owner = self._owner(values)
        self._series.setdefault(owner, set()).add(values)
        self._missed.pop(owner, None)
        return self.metric.labels(*values)

    def keep_only(self, living: Collection[str], patience: int = 0) -> None:
        """Takes away the series of those that are not there, and were not at `patience` looks before this one."""
        for owner in [owner for owner in self._series if owner not in living]:
            self._missed[owner] = missed = self._missed.get(owner, 0) + 1
            if missed > patience:
                for values in self._series.pop(owner):
                    self.metric.remove(*values)
                del self._missed[owner]

    def _owner(self, values: Sequence[str]) -> str:
        names = [values[place] for place in self._places]
        return object_key(*names) if len(names) > 1 else names[0]


_ALL: Final[list[OwnedSeries[Any]]] = []


def owned(make: Callable[..., M], name: str, text: str, labels: Sequence[str], **options: Any) -> OwnedSeries[M]:
    """A counter or histogram (`make`) with labels that name its owner. Raises StopIteration where none of them does."""
    return OwnedSeries(make(name, text, labels, **options), labels)


def keep_only(living: Living, patience: int = 0) -> None:
    """Of all metrics, for the kinds of owners that `living` has."""
    for one in _ALL:
        if one.kind in living:
            one.keep_only(living[one.kind], patience)


async def keep(living: Callable[[], Living], patience: int = 0) -> None:
    """Until it is cancelled."""
    while True:
        await asyncio.sleep(PERIOD)
        keep_only(living(), patience)
