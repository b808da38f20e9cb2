"""Sees every change of a site's Workloads and pods, and notes what must never be seen, not even for a moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

from api.assignment import decode
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change, ChangeType
from api.kube.resources import PODS, WORKLOADS
from api.meta import is_true
from api.names import FINISHED, QUOTA_RESERVED
from api.workloads import Workload
from tests.scenarios.site import DEADLINE, Site
from tests.scenarios.stage_processes import fallen
from tests.tasks import running

Obj = dict[str, Any]


class Watchman:
    """`wrongs` holds what was seen and must not be. Every pod of the site is one GPU. `evicts`: workloads may be evicted.
    `quota`: no more GPUs are promised together.
    """

    def __init__(self, here: Site, *, evicts: bool = False, quota: int | None = None) -> None:
        self.wrongs: list[str] = []
        self._here, self._evicts, self._quota = here, evicts, quota
        self._workloads = Informer(here.kube, WORKLOADS, Workload, namespace=here.name)
        self._pods: Informer[Obj] = Informer(here.kube, PODS, dict, namespace=here.name)
        self._admissions: dict[str, str] = {}
        self._of_job: dict[str, set[str]] = {}
        self._changed = asyncio.Event()
        self._workloads.add_handler(self._workload_changed)
        self._pods.add_handler(self._pod_changed)

    # ---- what is there

    @property
    def made(self) -> int:
        """Workloads."""
        return len(self._workloads.objects)

    @property
    def admitted(self) -> list[str]:
        """The names of the jobs whose Workloads hold quota."""
        held = (w for w in self._workloads.objects.values() if is_true(w.status.conditions, QUOTA_RESERVED))
        return [workload.metadata.owner_references[0].name for workload in held]

    @property
    def finished(self) -> list[str]:
        """The names of the jobs whose Workloads are Finished."""
        ended = (w for w in self._workloads.objects.values() if is_true(w.status.conditions, FINISHED))
        return [workload.metadata.owner_references[0].name for workload in ended]

    def workload(self, job: str) -> Workload | None:
        """Of the job."""
        every = self._workloads.objects.values()
        return next((w for w in every if w.metadata.owner_references[0].name == job), None)

    @property
    def gated(self) -> int:
        """Pods with a gate."""
        return sum(bool(pod["spec"].get("schedulingGates")) for pod in self._pods.objects.values())

    @property
    def bound(self) -> int:
        """Pods with a node."""
        return sum(bool(pod["spec"].get("nodeName")) for pod in self._pods.objects.values())

    async def sees(self, what: str, check: Callable[[Watchman], bool], seconds: float = DEADLINE) -> None:
        """Returns at the very change that makes it true. AssertionError with `what` when none does."""
        try:
            async with asyncio.timeout(seconds):
                while not check(self):
                    assert not (failure := fallen()), f"{what}: not any more, {failure}"
                    self._changed.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), 1.0)
        except TimeoutError:
            told = f"{self.made} workloads, {len(self.admitted)} admitted, {self.gated} gated, {self.bound} bound"
            raise AssertionError(f"{what}: not within {seconds} s; there are {told}") from None

    # ---- what must not be

    def _workload_changed(self, change: Change[Workload]) -> None:
        workload = change.object
        if change.type is not ChangeType.DELETED:
            self._once(workload)
            self._no_host_promised_twice()
        self._changed.set()

    def _once(self, workload: Workload) -> None:
        """One Workload a job, admitted once and never taken back where nothing evicts."""
        uid, owner = workload.metadata.uid, workload.metadata.owner_references[0]
        of_job = self._of_job.setdefault(owner.uid, set())
        of_job.add(uid)
        if len(of_job) > 1:
            self.wrongs.append(f"{owner.name} has {len(of_job)} Workloads")
        if self._evicts:
            return
        admission = workload.status.admission
        told = admission.model_dump_json() if admission else ""
        before = self._admissions.setdefault(uid, told) or told
        self._admissions[uid] = before
        if told != before:
            self.wrongs.append(f"{workload.key} admitted anew: first {before}, then {told}")

    def _no_host_promised_twice(self) -> None:
        promised: Counter[str] = Counter()
        live = (w for w in self._workloads.objects.values() if not is_true(w.status.conditions, FINISHED))
        for workload in live:
            for psa in workload.status.admission.pod_set_assignments if workload.status.admission else ():
                assert psa.topology_assignment is not None
                for values, count in decode(psa.topology_assignment):
                    promised[values[-1]] += count
        self._full("promised", promised)
        if self._quota is not None and promised.total() > self._quota:
            self.wrongs.append(f"{promised.total()} GPUs promised of a quota of {self._quota}")

    def _pod_changed(self, change: Change[Obj]) -> None:
        live = (p for p in self._pods.objects.values() if p["status"].get("phase") not in ("Succeeded", "Failed"))
        taken = Counter(node for pod in live if (node := pod["spec"].get("nodeName")))
        self._full("taken", taken)
        self._changed.set()

    def _full(self, what: str, used: Counter[str]) -> None:
        for host, pods in used.items():
            if pods > self._here.gpus_per_host:
                self.wrongs.append(f"{pods} pods {what} on {host}")

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._workloads.run())
            group.create_task(self._pods.run())

    async def ready(self) -> None:
        """Everything that there was is seen."""
        await self._workloads.synced(DEADLINE)
        await self._pods.synced(DEADLINE)


@contextlib.asynccontextmanager
async def watched(here: Site, *, evicts: bool = False, quota: int | None = None) -> AsyncIterator[Watchman]:
    """Looks on from here to the end, and fails the test for what was wrong meanwhile."""
    watchman = Watchman(here, evicts=evicts, quota=quota)
    async with running(watchman.run()):
        await watchman.ready()
        yield watchman
    assert not watchman.wrongs, watchman.wrongs[:5]
