"""Computes the due actions for one set (StatefulSet, LeaderWorkerSet): its groups' Workloads, its pods' labels. Pure.

For each group that the set asks for, in this order:

    there is no Workload      -> create one
    the Workload is deleted   -> once no pod of it runs, release it; its pods' group ends them (pod_plan.py)
    no pods are asked for     -> once none runs, release the quota and put the Workload on hold
    the Workload has quota    -> evicted and without pods: release the quota (with pods, their group does);
                                 fewer pods than admitted: reclaim theirs; more: delete the Workload and create it again
    the Workload has none     -> it follows the set: queue, class, pods; it comes off hold

A set that grows and shrinks while it runs has one group, and more than one Workload while it grows (set_slices.py). A Workload
of a group that is not asked for is deleted once none of its pods runs. A gated pod whose Workload exists is labelled with its
group and pod set. A set that is deleted without its pods leaves them their Workload (orphaned_pods.py); a set of the same
name that adopts the pods adopts it too, under its present name. The group's own plan starts and ends pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from admission.controllers.jobs.context import DEFAULTS, JobContext, JobOptions
from admission.controllers.jobs.plan.finish import end_orphaned, let_go
from admission.controllers.jobs.plan.job_slices import Slices, slice_annotations, slices_of
from admission.controllers.jobs.plan.pod_counts import lacks_pods, with_counts
from admission.controllers.jobs.plan.workload import (
    PriorityClassMissing,
    adopted,
    copied_annotations,
    is_managed,
    labels_of,
    spec_patch,
    uid_label,
    wanted_spec,
)
from admission.controllers.pods.sets.orphaned_pods import kept_names, leaves_its_pods
from admission.controllers.pods.sets.set_metadata import annotations_of_set, corrected, owner_reference
from admission.controllers.pods.sets.set_slices import (
    NextNames,
    acting,
    chain_of,
    dropped,
    example_of,
    resized,
    settled,
)
from admission.controllers.pods.sets.setactions import NOTHING, JoinPod, SetPlan, following, joining
from admission.controllers.state import conditions
from admission.controllers.state.actions import (
    CreateWorkload,
    DeleteWorkload,
    PatchWorkload,
    PlannedEvent,
    SetStatus,
)
from admission.controllers.watch.slices import marks_of
from admission.integrations.names import workload_name
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.sets.replica_groups import PodMembership, ReplicaGroup
from admission.integrations.sets.sets import SetKind
from api import names
from api.errors import InvalidObject
from api.meta import ObjectMeta, is_true
from api.workloads import ReclaimablePod, Workload

NO_POD: Final = (
    f"no pod of it waits: it gets its Workload with its first pod that bears the label {names.QUEUE_NAME_LABEL}"
)
NO_ANNOTATIONS: Final[Mapping[str, str]] = {}
UNSEEN: Final = 5.0
"""Seconds until the next reconcile while a created Workload has not been seen."""


def plan_set(
    kind: SetKind,
    obj: Mapping[str, Any],
    workloads: Sequence[Workload],
    pods: Iterable[QueuedPod],
    context: JobContext,
    now: float,
    is_made: Callable[[str], bool] = lambda _: False,
    behind: Sequence[Workload] = (),
) -> SetPlan:
    """Returns the set's plan.

    `workloads` have the set as owner; `is_made` reports whether a Workload of that name was created and not yet seen;
    `behind` are Workloads of its pods without an owner (`is_left_behind`).
    """
    if leaves_its_pods(obj):
        return NOTHING
    return _SetPlanner(kind, obj, pods, context, now).plan(workloads, is_made, behind)


def plan_gone(
    workloads: Sequence[Workload], pods: Iterable[QueuedPod], now: float, options: JobOptions = DEFAULTS
) -> SetPlan:
    """Plans for Workloads without their set: once none of its pods runs, Finished and without finalizer."""
    if any(pod.running for pod in pods):
        return NOTHING
    return NOTHING.then(*(action for workload in workloads for action in end_orphaned(workload, options, now)))


class _SetPlanner:
    """Computes one plan for one set."""

    def __init__(
        self,
        kind: SetKind,
        obj: Mapping[str, Any],
        pods: Iterable[QueuedPod],
        context: JobContext,
        now: float,
    ) -> None:
        self._kind, self._obj, self._context, self._now = kind, obj, context, now
        self._pods: dict[str, list[QueuedPod]] = {}
        self._memberships: list[tuple[QueuedPod, PodMembership]] = []
        self._present: set[int] = set()
        for pod in pods:
            self._note_membership(pod)

    def _note_membership(self, pod: QueuedPod) -> None:
        membership = self._kind.membership(self._obj, pod, short=self._context.options.short_names)
        if membership is None:
            return
        self._pods.setdefault(membership.workload, []).append(pod)
        self._memberships.append((pod, membership))
        index = self._kind.index_of(pod)
        if index is not None and not pod.deleted:
            self._present.add(index)

    def plan(
        self, workloads: Sequence[Workload], is_made: Callable[[str], bool], behind: Sequence[Workload]
    ) -> SetPlan:
        left = {workload.metadata.name: workload for workload in workloads}
        try:
            groups = self._groups(workloads)
        except InvalidObject as bad:
            return SetPlan(events=(PlannedEvent("ErrWorkloadCompose", str(bad), "Warning"),), note=str(bad))
        if self._wants_workloads and self._kind.needs_pod and not groups:
            return SetPlan(events=(PlannedEvent("NoPodWaits", NO_POD),))
        if groups and self._context.options.resizes and self._kind.may_resize(self._obj):
            return self._in_slices(groups[0], workloads, is_made)
        names_of, taken = kept_names(groups, self._memberships, workloads, behind)
        if taken:
            owner = owner_reference(self._kind, self._obj)
            return SetPlan(tuple(patch for workload in taken for patch in adopted(workload, owner)))
        groups = tuple(replace(group, workload=names_of.get(group.workload, group.workload)) for group in groups)
        self._rename(names_of)
        result, known = NOTHING, dict(left)
        for group in groups:
            workload = left.pop(group.workload, None)
            if workload is None and is_made(group.workload):
                result = result.followed(SetPlan(again_in=UNSEEN))
            else:
                result = result.followed(self._group(group, workload))
        for workload in left.values():
            result = result.followed(self._plan_unwanted(workload))
        totals = {group.workload: group.total for group in groups if not group.on_hold}
        return result.then(*self._joins(known, totals))

    def _groups(self, workloads: Sequence[Workload]) -> tuple[ReplicaGroup, ...]:
        if not self._wants_workloads:
            return ()
        options, example = self._context.options, self._example(workloads)
        return self._kind.groups(
            self._obj, self._present, topology=options.topology, short=options.short_names, example=example
        )

    @property
    def _wants_workloads(self) -> bool:
        """Reports whether the set is to have Workloads."""
        going = (self._obj.get("metadata") or {}).get("deletionTimestamp")
        return not going and is_managed(self._obj, self._context)

    def _example(self, workloads: Sequence[Workload]) -> Mapping[str, Any] | None:
        """Returns the template that represents all pods of a set without one.

        It is the template of the Workload with quota, else of the oldest waiting pod.
        """
        live = [w for w in workloads if not is_true(w.status.conditions, names.FINISHED)]
        held = [w for w in live if is_true(w.status.conditions, names.QUOTA_RESERVED)]
        waiting = sorted(
            (p for p, _ in self._memberships if p.spec is not None), key=lambda p: (p.created, p.metadata.name)
        )
        if waiting and not held:
            return example_of(waiting)
        return next((w.spec.pod_sets[0].template for w in (*held, *live) if w.spec.pod_sets), None)

    # ---- a set that grows and shrinks while it runs

    def _in_slices(self, group: ReplicaGroup, workloads: Sequence[Workload], is_made: Callable[[str], bool]) -> SetPlan:
        every = [pod for pods in self._pods.values() for pod in pods]
        self._pods = {workload.metadata.name: every for workload in workloads}
        slices, taken = slices_of(workloads), {workload.metadata.name for workload in workloads}
        result, acts = settled(slices, self._now), acting(workloads)
        if acts is None:
            name = self._next_names("").usual if group.workload in taken else group.workload
            if group.on_hold:
                return result
            if is_made(name):
                return result.followed(SetPlan(again_in=UNSEEN))
            return result.followed(self._created(replace(group, workload=name), chain=group.workload))
        for other in slices.others[1:]:
            result = result.followed(self._plan_unwanted(other))
        result = result.followed(self._slice(group, acts, slices, taken))
        chain = chain_of(acts)
        self._memberships = [(pod, replace(membership, workload=chain)) for pod, membership in self._memberships]
        return result.then(*self._joins({chain: acts}, {} if group.on_hold else {chain: group.total}))

    def _slice(self, group: ReplicaGroup, acts: Workload, slices: Slices, taken: set[str]) -> SetPlan:
        if acts is not slices.current:
            return self._group(group, acts)
        if group.on_hold:
            going = SetPlan(tuple(dropped(slices.following))) if slices.following else NOTHING
            return going.followed(self._group(group, acts))
        wanted = {pod_set.name: pod_set.count for pod_set in group.pod_sets}
        if (changed := resized(acts, slices.following, wanted)) is not None:
            return changed
        if slices.following is not None or not lacks_pods(acts, wanted):
            return self._followed_class(acts)
        names_of = self._next_names(acts.metadata.name)
        name = names_of.other if names_of.usual in taken else names_of.usual
        requested = replace(group, workload=name, pod_sets=with_counts(acts.spec.pod_sets, wanted))
        return self._followed_class(acts).followed(self._created(requested, annotations=slice_annotations(acts)))

    def _next_names(self, after: str) -> NextNames:
        """Returns the possible names of the next slice.

        As in Kueue, the name contains the set's generation; for a second slice of one generation also the slice before it.
        """
        meta, short = self._obj["metadata"], self._context.options.short_names
        generation, uid = str(meta.get("generation") or 0), meta.get("uid", "")
        usual, other = (
            workload_name(self._kind.resource, meta["name"], uid, extra=extra, short=short)
            for extra in (generation, f"{generation}/{after}")
        )
        return NextNames(usual, other)

    def _rename(self, names_of: Mapping[str, str]) -> None:
        self._pods = {names_of.get(name, name): pods for name, pods in self._pods.items()}
        self._memberships = [
            (pod, replace(membership, workload=names_of.get(membership.workload, membership.workload)))
            for pod, membership in self._memberships
        ]

    # ---- one group

    def _group(self, group: ReplicaGroup, workload: Workload | None) -> SetPlan:
        if workload is None:
            return NOTHING if group.on_hold else self._created(group)
        if workload.metadata.deletion_timestamp:
            return self._plan_deletion(workload)
        if is_true(workload.status.conditions, names.FINISHED):
            return NOTHING
        return SetPlan(corrected(self._kind, self._obj, group.index, workload)).followed(self._live(group, workload))

    def _live(self, group: ReplicaGroup, workload: Workload) -> SetPlan:
        if group.on_hold:
            return self._plan_on_hold(workload)
        if is_true(workload.status.conditions, names.QUOTA_RESERVED):
            return self._with_quota(group, workload)
        return self._waiting(group, workload)

    def _created(
        self, group: ReplicaGroup, *, chain: str = "", annotations: Mapping[str, str] = NO_ANNOTATIONS
    ) -> SetPlan:
        """Creates the group's Workload; `chain`: for a set in slices, the name of its pods' group."""
        meta = self._obj["metadata"]
        slice_of = marks_of(chain) if chain else annotations
        fields: dict[str, Any] = {
            "name": group.workload,
            "namespace": meta.get("namespace"),
            "labels": uid_label(meta.get("uid", "")),
            "annotations": {
                **copied_annotations(self._obj, self._context),
                **annotations_of_set(self._kind, self._obj, group.index),
                **slice_of,
            },
            "finalizers": (names.IN_USE_FINALIZER,),
            "owner_references": (owner_reference(self._kind, self._obj),),
        }
        try:
            spec = wanted_spec(self._obj, None, group.pod_sets, self._context)
        except PriorityClassMissing as error:
            return _classless(error)
        workload = Workload(metadata=ObjectMeta(**fields), spec=spec)
        return SetPlan(
            (CreateWorkload(workload, (PlannedEvent("CreatedWorkload", f"Created Workload: {workload.key}"),)),)
        )

    def _is_running(self, workload: Workload) -> bool:
        return any(pod.running for pod in self._pods.get(workload.metadata.name, ()))

    def _plan_deletion(self, workload: Workload) -> SetPlan:
        return NOTHING if self._is_running(workload) else SetPlan(let_go(workload))

    def _plan_unwanted(self, workload: Workload) -> SetPlan:
        return NOTHING if self._is_running(workload) else SetPlan(tuple(dropped(workload)))

    def _plan_on_hold(self, workload: Workload) -> SetPlan:
        if conditions.is_on_hold(workload.status) or self._is_running(workload):
            return NOTHING
        status = conditions.on_hold(workload.status, self._now, workload.metadata.generation)
        return SetPlan(
            (SetStatus(workload, status, (PlannedEvent("OnHold", "No pods are asked for: the quota is free"),)),)
        )

    def _with_quota(self, group: ReplicaGroup, workload: Workload) -> SetPlan:
        if is_true(workload.status.conditions, names.EVICTED):
            if self._pods.get(workload.metadata.name):
                return NOTHING
            status = conditions.released(workload.status, self._now, workload.metadata.generation)
            return SetPlan((SetStatus(workload, status),))
        if (resized := self._resized(group, workload)) is not None:
            return resized
        return self._followed_class(workload)

    def _resized(self, group: ReplicaGroup, workload: Workload) -> SetPlan | None:
        """Handles a change of replicas that bypassed the webhook (scale subresource); None if the pods are as admitted."""
        done = workload.reclaimed
        admitted = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
        requested = {pod_set.name: pod_set.count for pod_set in group.pod_sets}
        if requested.keys() != admitted.keys() or any(
            requested[name] > admitted[name] - done.get(name, 0) for name in requested
        ):
            event = PlannedEvent("DeletedWorkload", f"Deleted not matching Workload: {workload.key}")
            return SetPlan((DeleteWorkload(workload, (event,)),))
        standing = [pod for pod in self._pods.get(workload.metadata.name, ()) if pod.running or not pod.deleted]
        spare = {name: admitted[name] - requested[name] for name in requested if requested[name] < admitted[name]}
        if spare == done or len(standing) > group.total:
            return None
        pods = tuple(ReclaimablePod(name=name, count=count) for name, count in spare.items())
        status = workload.status.model_copy(update={"reclaimable_pods": pods})
        return SetPlan((SetStatus(workload, status),))

    def _followed_class(self, workload: Workload) -> SetPlan:
        ref, label = workload.spec.priority_class_ref, labels_of(self._obj).get(names.PRIORITY_CLASS_LABEL)
        if ref is None or ref.group != names.GROUP or label in (None, ref.name):
            return NOTHING
        priority_class = self._context.workload_priority_classes.get(label)
        if priority_class is None:
            return _classless(PriorityClassMissing("WorkloadPriorityClass", label))
        patch = {"spec": {"priority": priority_class.value, "priorityClassRef": {"name": label}}}
        event = PlannedEvent("UpdatedWorkload", f"Updated workload priority class: {workload.key}")
        return SetPlan((PatchWorkload(workload, patch, (event,)),))

    def _waiting(self, group: ReplicaGroup, workload: Workload) -> SetPlan:
        try:
            wanted = wanted_spec(self._obj, None, group.pod_sets, self._context, workload.spec)
        except PriorityClassMissing as error:
            return _classless(error)
        result = NOTHING
        if patch := spec_patch(workload, self._obj, wanted):
            event = PlannedEvent("UpdatedWorkload", f"Updated not matching Workload for suspended job: {workload.key}")
            events = () if patch.get("spec", {}).keys() <= {"queueName"} else (event,)
            result = result.then(PatchWorkload(workload, patch, events))
        if conditions.is_on_hold(workload.status):
            status = conditions.off_hold(workload.status, self._now, workload.metadata.generation)
            result = result.then(SetStatus(workload, status))
        return result

    # ---- pods

    def _joins(self, workloads: Mapping[str, Workload], totals: Mapping[str, int]) -> Iterable[JoinPod]:
        for pod, membership in self._memberships:
            workload = workloads.get(membership.workload)
            if workload is None or workload.metadata.deletion_timestamp or membership.workload not in totals:
                continue
            if pod.deleted or pod.terminated:
                continue
            if pod.gated and not pod.group:
                yield joining(pod, membership, totals[membership.workload], self._labels())
            elif pod.group == membership.workload and pod.labels.get(names.QUEUE_NAME_LABEL) != self._queue():
                yield following(pod, self._queue())

    def _queue(self) -> str | None:
        return labels_of(self._obj).get(names.QUEUE_NAME_LABEL)

    def _labels(self) -> dict[str, str]:
        """Returns the labels that the set passes to its pods; its templates do not contain them."""
        own = labels_of(self._obj)
        passed = {key: own[key] for key in (names.QUEUE_NAME_LABEL, names.PRIORITY_CLASS_LABEL) if key in own}
        return {names.MANAGED_LABEL: "true", **passed}


def _classless(error: PriorityClassMissing) -> SetPlan:
    return SetPlan(events=(PlannedEvent(f"{error.kind}NotFound", str(error), "Warning"),), note=str(error))
