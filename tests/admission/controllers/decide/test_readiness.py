"""One workload at a time: who may start, and who is woken."""

from __future__ import annotations

from typing import Any, cast

from admission.controllers.decide.readiness import Readiness
from admission.controllers.watch.cluster_view import ClusterView
from api.kube.informers.store import Change, ChangeType
from api.workloads import Workload
from tests.builders import condition, workload

READY = condition("PodsReady", "True", "Started")


class Watch:
    """Stands for the view of Workloads."""

    def __init__(self) -> None:
        self.workloads, self.woken = self, 0

    def add_handler(self, fn: Any) -> None:
        self.tell = fn

    def wake(self) -> None:
        self.woken += 1

    def shows(self, original: Workload, kind: ChangeType = ChangeType.MODIFIED) -> None:
        self.tell(Change(kind, original.key, original, None))


def made() -> tuple[Watch, Readiness]:
    watch = Watch()
    return watch, Readiness(cast("ClusterView", watch), watch.wake)


def test_one_may_start_when_the_pods_of_all_others_are_ready() -> None:
    watch, readiness = made()
    assert readiness.startable(False) == 1
    watch.shows(workload("waits"))
    assert readiness.startable(False) == 1
    watch.shows(workload("a", admitted=True))
    watch.shows(workload("b", admitted=True))
    assert readiness.startable(False) == 0
    watch.shows(workload("a", admitted=True, conditions=[READY]))
    assert (readiness.startable(False), watch.woken) == (0, 0)
    watch.shows(workload("b", admitted=True, conditions=[condition("Finished")]))
    assert (readiness.startable(False), watch.woken) == (1, 1)


def test_a_workload_that_goes_is_waited_for_no_more() -> None:
    watch, readiness = made()
    watch.shows(workload("a", admitted=True))
    watch.shows(workload("a", admitted=True), ChangeType.DELETED)
    assert (readiness.startable(False), watch.woken) == (1, 1)


def test_an_admission_on_its_way_counts_and_its_failure_wakes() -> None:
    watch, readiness = made()
    assert readiness.startable(True) == 0
    readiness.settled(True)
    assert watch.woken == 0
    readiness.settled(False)
    assert watch.woken == 1
