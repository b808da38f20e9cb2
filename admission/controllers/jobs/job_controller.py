"""The job controller: reconciles jobs of every registered kind with their Workloads.

It watches, asks `job_plan` for the due actions and has them performed; it decides nothing. The reconciler's keys are jobs
(`batch/job:ns/name`), and no key is reconciled by two workers at once. Readiness and ends of a running job's pods are
collected for `PROGRESS` seconds, and a job that has not changed since its last empty plan is not planned again, so the many
status updates of running jobs cost little; the event of a write of reclaimable pods is collected too. A write that conflicts
with another client's change ends the pass; that change requeues the key. assembly.py builds the controller, which runs on the
leader only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from admission.controllers.jobs.ancestors import DEEPEST, JobAncestors, about_to_start, children_of
from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.controller_context import ControllerContext
from admission.controllers.jobs.executor import Executor
from admission.controllers.jobs.fingerprint import fingerprint_of
from admission.controllers.jobs.leftover_pods import RETRY, ends_a_start, has_leftover_pods
from admission.controllers.jobs.orphans import OrphanedWorkloads
from admission.controllers.jobs.plan.job_plan import plan
from admission.controllers.jobs.plan.workload import prebuilt_key
from admission.controllers.jobs.predicates import has_ended, has_turned, is_progress, is_reclaim
from admission.controllers.state.actions import CreateWorkload
from admission.controllers.state.condition_table import Writer
from admission.controllers.watch.caches import (
    BY_JOB,
    BY_PARENT,
    BY_PREBUILT,
    BY_REFERENCE,
    ExpectedWorkloads,
    InformerView,
    MutationCache,
    file_owned,
    group_of,
    is_orphan,
    job_key,
    job_keys,
    job_owner,
    key_of,
    owner_key,
    owner_uid,
)
from admission.controllers.watch.rounds import Rounds
from admission.controllers.write.workload_writer import WorkloadWriter
from admission.integrations.base import Job, JobIntegration, SelectiveJob, as_parent, as_selective
from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.declared.parts import PARTS
from admission.integrations.declared.referenced import REFERENCED
from admission.metrics.lives import CREATION_LATENCY
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import Resource
from api.meta import object_key, parse_time
from api.workloads import Workload

log = logging.getLogger(__name__)

SYNC_TIMEOUT: Final = 120.0
EXPECTATION: Final = 5.0
PROGRESS: Final = 5.0
"""Seconds to collect the ends of a running job's pods before the Workload's reclaimable pods are updated: pods of a job tend
to end together, and each update costs as much as an admission.
"""
# Seconds until a job is reconciled again whose kind's informer has not synced.
_UNLISTED: Final = 1.0
_ORPHAN: Final = "workload"
"""Instead of a framework, in the keys of Workloads that have no owner."""


class JobController:
    """Reconciles jobs of all registered kinds.

    `jobs` holds an informer view per framework; `views`, those of Workloads, flavors and priority classes; `referenced`, those
    of objects that define the pods of jobs.
    """

    def __init__(
        self,
        context: ControllerContext,
        adapters: Sequence[JobIntegration],
        jobs: Mapping[str, InformerView[dict[str, Any]]],
        *,
        referenced: Mapping[Resource, InformerView[dict[str, Any]]] | None = None,
        workers: int = 16,
    ) -> None:
        kube, views = context.kube, context.views
        self._kube, self._wall = kube, context.wall
        self._adapters = {adapter.framework: adapter for adapter in adapters if adapter.framework in jobs}
        self._frameworks = {(a.resource.group, a.resource.kind): f for f, a in self._adapters.items()}
        self._filed = dict(self._frameworks)
        self._jobs, self._workloads, self._flavors = dict(jobs), views.workloads, views.flavors
        self._workload_classes, self._priority_classes = views.workload_priorities, views.priorities
        self._referenced = referenced or {}
        self._options = context.options
        self._latest_jobs: MutationCache[dict[str, Any]] = MutationCache()
        self._latest_workloads: MutationCache[Workload] = MutationCache()
        self._expected = ExpectedWorkloads(EXPECTATION, context.wall)
        self._resources = {framework: adapter.resource for framework, adapter in self._adapters.items()}
        writer = WorkloadWriter(kube, self._latest_workloads, self._expected, Writer.JOBS)
        self._act = Executor(kube, context.recorder, self._resources, self._latest_jobs, writer, context.ending)
        self._last_fingerprints: dict[str, tuple[object, ...]] = {}
        self._orphans = OrphanedWorkloads(
            kube, self._adapters, self._latest_workloads, self._act, self._options, self._wall
        )
        self._missing_classes: set[str] = set()
        self._managed: dict[str, bool] = {}
        self.queue = Reconciler("jobs", self.reconcile, workers=workers)
        self._rounds = Rounds("jobs", self.queue.add, in_steps=True)
        self._ancestors = JobAncestors(self._adapters, self._jobs, views.workloads, self._options)
        self._subscribe()

    async def run(self) -> None:
        """Runs until cancelled, once the views have synced; their informers run elsewhere. A missing job kind blocks
        nothing."""
        views: list[InformerView[Any]] = [
            self._workloads,
            self._flavors,
            self._workload_classes,
            self._priority_classes,
            *self._referenced.values(),
        ]
        for view in views:
            await view.synced(SYNC_TIMEOUT)
        await self.queue.run()

    # ---- watch handlers

    def _subscribe(self) -> None:
        self._workloads.add_index(BY_JOB, self._job_keys)
        self._workloads.add_handler(self._workload_changed)
        PARTS.found_by(self._parts_of)
        for framework, view in self._jobs.items():
            self._watch(framework, view)
        for resource, referenced in self._referenced.items():
            REFERENCED.keep(resource, referenced.objects)
            referenced.add_handler(partial(self._reference_changed, resource.kind))
        self._workload_classes.add_handler(self._class_changed)
        self._priority_classes.add_handler(self._class_changed)

    def _watch(self, framework: str, view: InformerView[dict[str, Any]]) -> None:
        view.add_index(BY_PREBUILT, _prebuilt_keys)
        view.add_index(BY_PARENT, _parent_keys)
        selective = as_selective(self._adapters[framework])
        if selective is not None:
            view.add_index(BY_REFERENCE, lambda job: _reference_keys(selective, job))
        view.add_handler(self._job_handler(framework))

    def _reference_changed(self, kind: str, change: Change[dict[str, Any]]) -> None:
        """Requeues jobs that refer to the changed object, since their pod sets may change."""
        for framework, view in self._jobs.items():
            if as_selective(self._adapters[framework]) is None:
                continue
            for job in view.by_index(BY_REFERENCE, f"{kind} {change.key}"):
                key = job_key(framework, key_of(job))
                self._last_fingerprints.pop(key, None)
                self.queue.add(key)

    async def add_kind(self, adapter: JobIntegration, view: InformerView[dict[str, Any]]) -> None:
        """Starts to manage a job kind, including its jobs that have Workloads already. The view's informer runs elsewhere,
        from then on: a job that is seen before its Workload is indexed would be taken for one without a Workload.
        """
        framework, resource = adapter.framework, adapter.resource
        self._filed[resource.group, resource.kind] = framework
        owners = await file_owned(self._workloads, BY_JOB, self._filed, framework)
        self._adapters[framework], self._resources[framework], self._jobs[framework] = adapter, resource, view
        self._frameworks[resource.group, resource.kind] = framework
        self._watch(framework, view)
        self._rounds.add(owners)

    def remove_kind(self, adapter: JobIntegration) -> None:
        """Stops managing a job kind: its running jobs keep running, its waiting jobs keep waiting.

        Its Workloads stay indexed by their jobs, for which nobody asks; each leaves the index with its next change.
        """
        framework, resource = adapter.framework, adapter.resource
        for known in (self._adapters, self._resources, self._jobs):
            known.pop(framework, None)
        self._last_fingerprints = {
            key: fingerprint
            for key, fingerprint in self._last_fingerprints.items()
            if not key.startswith(f"{framework}:")
        }
        self._frameworks.pop((resource.group, resource.kind), None)
        self._filed.pop((resource.group, resource.kind), None)

    def _job_keys(self, workload: Workload) -> Iterable[str]:
        key = owner_key(workload, self._filed)
        return (key,) if key else ()

    def _job_handler(self, framework: str) -> Callable[[Change[dict[str, Any]]], None]:
        def changed(change: Change[dict[str, Any]]) -> None:
            key = job_key(framework, change.key)
            if framework not in self._adapters:
                return
            if change.type is ChangeType.DELETED:
                self._latest_jobs.forget(key, change.object)
                self._last_fingerprints.pop(key, None)
            adapter = self._adapters[framework]
            if has_ended(change, adapter):
                self.queue.add(key, urgent=True)
            else:
                collected = not self._options.wait_for_pods_ready and is_progress(change, adapter)
                self.queue.add_after(key, PROGRESS if collected else 0.0)
            self._queue_whole(change.object)

        return changed

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.type is ChangeType.DELETED:
            self._latest_workloads.forget(change.key, change.object)
        key = owner_key(change.object, self._frameworks)
        if key:
            self._expected.seen(key, change.key)
            turned = has_turned(change)
            if is_reclaim(change):
                # Planned at once, pods that ended during the write would cost another one.
                self.queue.add_after(key, PROGRESS)
            else:
                self.queue.add(key, urgent=turned)
            if turned or change.type is not ChangeType.MODIFIED:
                self._queue_parts(key)
        elif is_orphan(change.object):
            self.queue.add(job_key(_ORPHAN, change.key))
        for framework, view in self._jobs.items():
            for job in view.by_index(BY_PREBUILT, change.key):
                self.queue.add(job_key(framework, key_of(job)))

    def _parts_of(self, resource: Resource, job: Job) -> Iterator[tuple[JobIntegration, dict[str, Any]]]:
        """Yields the managed objects that the job controls, with their adapters; none for a job without uid, as in a file."""
        uid = (job.get("metadata") or {}).get("uid")
        if uid is None:
            return
        for framework, view in self._jobs.items():
            for part in view.by_index(BY_PARENT, f"{resource.api_version} {resource.kind} {key_of(job)}"):
                owner = job_owner(part)
                if owner is not None and owner.uid == uid:
                    yield self._adapters[framework], part

    def _queue_whole(self, part: dict[str, Any]) -> None:
        """Requeues the job that controls the object, if the state of such a job depends on its parts."""
        owner = job_owner(part)
        framework = self._frameworks.get((group_of(owner), owner.kind)) if owner is not None else None
        adapter = self._adapters.get(framework or "")
        if owner is not None and isinstance(adapter, DeclaredJob) and adapter.counts_parts:
            key = job_key(adapter.framework, object_key((part.get("metadata") or {}).get("namespace"), owner.name))
            self._last_fingerprints.pop(key, None)
            self.queue.add(key)

    def _queue_parts(self, key: str, depth: int = 0) -> None:
        """Requeues the job's parts, recursively: they follow its Workload."""
        framework, _, name = key.partition(":")
        resource = self._resources[framework]
        for of, view in self._jobs.items():
            for part in view.by_index(BY_PARENT, f"{resource.api_version} {resource.kind} {name}"):
                owner_key = job_key(of, key_of(part))
                self.queue.add(owner_key)
                if depth < DEEPEST:
                    self._queue_parts(owner_key, depth + 1)

    def _class_changed(self, change: Change[Any]) -> None:
        if change.type is ChangeType.ADDED:
            waiting, self._missing_classes = self._missing_classes, set()
            for key in waiting:
                self._last_fingerprints.pop(key, None)
                self.queue.add(key)

    def namespace_changed(self, name: str, *, exists: bool = True) -> None:
        """Requeues a namespace's jobs if its creation or new labels changed whether Stowage manages it."""
        managed, before = self._options.namespace_managed(name), self._managed.pop(name, None)
        if exists:
            self._managed[name] = managed
        if managed is before:
            return
        self._rounds.add_found(name, lambda: job_keys(self._jobs, name))

    # ---- one job

    async def reconcile(self, key: str) -> float | None:
        """Performs the job's next actions; returns the seconds until it must be reconciled again, or None."""
        framework, _, name = key.partition(":")
        if framework == _ORPHAN:
            return await self._without_owner(name)
        if framework not in self._jobs:
            return None  # its JobKind was deleted
        if not self._jobs[framework].has_synced:
            return _UNLISTED  # until then, a job missing from the view may still exist
        copy = self._jobs[framework].objects.get(name)
        owned = self._workloads.by_index(BY_JOB, key)
        if copy is None:
            self._last_fingerprints.pop(key, None)
            self._missing_classes.discard(key)
            return await self._orphans.release(key, owned)
        job = self._latest_jobs.of(key, copy)
        uid = job["metadata"].get("uid", "")
        mine = [self._latest_workloads.of(w.key, w) for w in owned if owner_uid(w) == uid]
        strays = await self._orphans.release(key, [w for w in owned if owner_uid(w) != uid])
        again = await self._with_job(key, job, mine)
        return min((seconds for seconds in (strays, again) if seconds is not None), default=None)

    async def _with_job(self, key: str, job: dict[str, Any], workloads: list[Workload]) -> float | None:
        adapter = self._adapters[key.partition(":")[0]]
        waiting = None if workloads else self._expected.remaining(key)
        if waiting is not None:
            return waiting
        context = self._context(job, adapter, await self._children(job, adapter, workloads))
        fingerprint = fingerprint_of(job, adapter, workloads, context)
        if self._last_fingerprints.get(key) == fingerprint:
            # This equal value references the current copies, so the older ones can be freed.
            self._last_fingerprints[key] = fingerprint
            return None
        made = plan(job, adapter, workloads, context, self._wall())
        if ends_a_start(made, job, adapter) and await has_leftover_pods(self._kube, job, adapter):
            return RETRY
        again = await self._act.perform(key, adapter, job, made)
        if any(isinstance(action, CreateWorkload) for action in made.actions):
            self._measure_creation(job, adapter)
        if not made.actions and again is None:
            self._last_fingerprints[key] = fingerprint
        if any(event.reason.endswith("PriorityClassNotFound") for event in made.events):
            self._missing_classes.add(key)
        return again

    def _measure_creation(self, job: Job, adapter: JobIntegration) -> None:
        created = parse_time(job["metadata"].get("creationTimestamp"))
        if created is not None:
            CREATION_LATENCY.labels(adapter.resource.kind).observe(max(0.0, self._wall() - created))

    async def _without_owner(self, name: str) -> float | None:
        workload = self._workloads.objects.get(name)
        if workload is None or not is_orphan(workload):
            return None
        return await self._orphans.finish(job_key(_ORPHAN, name), [self._latest_workloads.of(name, workload)])

    async def _children(self, job: Job, adapter: JobIntegration, workloads: Sequence[Workload]) -> list[dict[str, Any]]:
        above = as_parent(adapter)
        if above is None or not about_to_start(job, adapter, workloads):
            return []
        child = self._adapters.get(above.children)
        return [] if child is None else await children_of(self._kube, job, above, child.resource)

    def _context(self, job: Job, adapter: JobIntegration, children: list[dict[str, Any]]) -> JobContext:
        return JobContext(
            flavors=self._flavors.objects,
            workload_priority_classes=self._workload_classes.objects,
            priority_classes=self._priority_classes.objects,
            workloads=self._workloads.objects,
            options=self._options,
            children=children,
            ancestor_admitted=self._ancestors.ancestor_admitted(job, adapter),
        )


def _prebuilt_keys(job: dict[str, Any]) -> Iterable[str]:
    key = prebuilt_key(job)
    return (key,) if key else ()


def _parent_keys(job: dict[str, Any]) -> Iterable[str]:
    """Returns the index key of the job's owner, of any kind: an unmanaged kind may become managed later."""
    owner = job_owner(job)
    if owner is None:
        return ()
    return (f"{owner.api_version} {owner.kind} {object_key(job['metadata'].get('namespace'), owner.name)}",)


def _reference_keys(kind: SelectiveJob, job: dict[str, Any]) -> Iterable[str]:
    reference = kind.reference(job)
    return (f"{reference[0].kind} {reference[1]}",) if reference is not None else ()
