"""What a feature adds to the controller process, which knows no feature by name: assembly.py has one line for each.

A hook that a feature does not implement does nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.cycle_due import CycleDue
from admission.controllers.watch.feed import Feed
from admission.controllers.watch.view_feature import first_answer
from admission.engine import model
from admission.engine.ledger.ledger import Ledger
from admission.engine.queue.queues import PendingQueues
from admission.integrations.pods.pod import QueuedPod
from admission.settings import AdmissionSettings
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.informers.informer import Informer
from api.sakkara import DescribedGroup
from api.workloads import Workload

LatestStart = Callable[[str], float | None]
"""By when (epoch seconds) the waiting Workload of a key starts; None if that is not reliable."""
Run = tuple[str, Callable[[], Awaitable[None]]]
"""A task's name, and the function that it runs until cancelled."""


@dataclass(frozen=True)
class FeatureContext:
    """What the parts of the process share."""

    kube: Kube
    """Reads."""
    writer: Kube
    """Writes, and only while this replica leads."""
    settings: AdmissionSettings
    views: Views
    recorder: EventRecorder
    ledger: Ledger
    queues: PendingQueues
    pods: Informer[QueuedPod]
    """Pods that are queued singly or in groups."""
    cycle_due: CycleDue
    """Set when a cycle could decide something."""


class Descriptions(Protocol):
    """Gangs that other objects than PodGroups describe."""

    def of(self, key: str) -> DescribedGroup | None:
        """Returns the description of the gang, or None."""

    def add_handler(self, fn: Callable[[str], None], /) -> None:
        """Calls `fn` with the key of each gang whose description changed."""

    async def synced(self, seconds: float) -> None:
        """Waits until the first lists have arrived."""


class ControllerFeature:
    """The hooks of one feature. Its handlers run before those of the feed, and its tasks on the leader."""

    informers: Sequence[Informer[Any]] = ()
    runs: Sequence[Run] = ()
    descriptions: Descriptions | None = None

    def __init__(self, context: FeatureContext) -> None:
        """Builds the feature, which is on."""

    @staticmethod
    def is_on(settings: AdmissionSettings) -> bool:
        """Reports whether the settings turn the feature on."""
        return True

    def connect(self, feed: Feed) -> None:
        """Gets the feed, which is built after the feature."""

    def guess(self, workload: Workload) -> float | None:
        """Returns for how many seconds a waiting Workload will run at most; None if nothing is known."""

    def latest_start(self, key: str) -> float | None:
        """Returns by when (epoch seconds) the waiting Workload starts without moves; None if that is not reliable."""

    def hint(self, workload: model.Workload, now: float, starts: LatestStart, pause: Callable[[], None]) -> str | None:
        """Returns what would give a workload that lacks a place one, for its explanation; None if the feature knows nothing."""

    def decided(self, keys: Collection[str], seconds: float) -> None:
        """Notes that a cycle of this duration decided on these workloads."""

    def on_usage(self, call: Callable[[str], None]) -> None:
        """Calls `call` with each ClusterQueue of which the usage that no Workload has reserved changes."""


class ControllerFeatures:
    """The features of a process, in the order in which they are asked."""

    def __init__(self, features: Sequence[ControllerFeature] = ()) -> None:
        self.all = features

    @property
    def descriptions(self) -> Descriptions | None:
        """The descriptions of the first feature that has any."""
        return first_answer(each.descriptions for each in self.all)

    def connect(self, feed: Feed) -> None:
        """Tells every feature."""
        for each in self.all:
            each.connect(feed)

    def guess(self, workload: Workload) -> float | None:
        """Returns the first answer of a feature."""
        return first_answer(each.guess(workload) for each in self.all)

    def latest_start(self, key: str) -> float | None:
        """Returns the first answer of a feature."""
        return first_answer(each.latest_start(key) for each in self.all)

    def hint(self, workload: model.Workload, now: float, pause: Callable[[], None]) -> str | None:
        """Returns the first answer of a feature."""
        return first_answer(each.hint(workload, now, self.latest_start, pause) for each in self.all)

    def decided(self, keys: Collection[str], seconds: float) -> None:
        """Tells every feature."""
        for each in self.all:
            each.decided(keys, seconds)

    def on_usage(self, call: Callable[[str], None]) -> None:
        """Registers the callback with every feature."""
        for each in self.all:
            each.on_usage(call)
