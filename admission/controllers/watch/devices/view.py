"""The cluster's devices, and their effect on Workloads, bound pods and nodes. No IO.

A kind of devices is counted once the first Workload requests it, so a cluster whose jobs request none has no cost. Each kind is
an amount like a resource: nodes offer it, pods use it. Kinds that share devices of a node have a second amount there, which
pods of either kind use. That may reject a suitable node, but never promises a device twice. Nodes are counted in steps; a
Workload waits while its kind is not counted, and while there are too many kinds (counted_kinds.py). `on_amounts` reports the
Workloads, nodes and pods to evaluate again.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from cachetools import LRUCache

from admission.controllers.watch.devices.counted_kinds import CountedKinds, TooManyKinds
from admission.controllers.watch.devices.requests import (
    IMPLICIT,
    CannotCount,
    DeviceKind,
    claim_templates,
    extended_resources,
    kinds_of,
)
from admission.controllers.watch.devices.slices import counted
from admission.controllers.watch.in_steps import InSteps
from admission.controllers.watch.kinds import Kinds
from admission.controllers.watch.local_copies import Copy
from admission.controllers.watch.node_amounts import NOTHING, AmountsChanged, with_amounts
from admission.controllers.watch.projection import ProjectedPod
from admission.controllers.watch.view_feature import ViewFeature
from admission.controllers.watch.watched import Watched, item
from admission.engine import model
from admission.engine.model import LARGEST
from admission.engine.reasons import Reason
from api.kube.informers.lazy_informer import LazyInformer
from api.kube.informers.store import Change, ChangeType
from api.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, Resource
from api.meta import is_true, object_key
from api.names import FINISHED
from api.pod.devices import DeviceClass, ResourceClaimTemplate, ResourceSlice
from api.pod.pods import Node
from api.workloads import Workload

_BY_NODE: Final = "node"
_BY_TEMPLATE: Final = "template"
_BY_RESOURCE: Final = "extended resource"
_ANY: Final = "any"
_MOST_GONE: Final = 1024
"""The number of deleted templates to remember, since pods created from them still have their devices."""
_AT_ONCE: Final = 64
"""The number of Workloads to evaluate again after one has ended, of those that request too many kinds."""


class DeviceView(ViewFeature):
    """Counts devices of the requested kinds."""

    resource_slices = Watched(RESOURCE_SLICES, item(ResourceSlice), informer=LazyInformer, without="devices")
    device_classes = Watched(DEVICE_CLASSES, item(DeviceClass), informer=LazyInformer, without="the classes of devices")
    claim_templates = Watched(
        RESOURCE_CLAIM_TEMPLATES,
        item(ResourceClaimTemplate),
        informer=LazyInformer,
        without="the devices that pods ask for",
    )

    def __init__(self, view: Kinds, copies: Mapping[Resource, Copy[Any]]) -> None:
        super().__init__(view, copies)
        slices, classes, templates = self.resource_slices, self.device_classes, self.claim_templates
        self._view, self._workloads, self._pods = view, view.workloads, view.pods
        workloads, pods = view.workloads, view.pods
        self._lazy = [each for kind in self.kinds() if isinstance(each := copies[kind.resource], LazyInformer)]
        self._kinds = CountedKinds(self._in_use)
        self._refused: dict[str, None] = {}
        self._refused_by_name: dict[str, set[str]] = {}
        self._counted: set[DeviceKind] = set()
        self._steps = InSteps()
        self._beside: dict[DeviceKind, set[DeviceKind]] = {}
        self._offers: dict[str, Mapping[str, int]] = {}
        self._gone: LRUCache[str, ResourceClaimTemplate] = LRUCache(_MOST_GONE)
        self._handlers: list[Callable[[AmountsChanged], None]] = []
        slices.add_index(_BY_NODE, lambda each: [each.spec.node_name] if each.spec.node_name else [])
        workloads.add_index(_BY_TEMPLATE, _filed)
        workloads.add_index(_BY_RESOURCE, _requests_by_name)
        pods.add_index(_BY_TEMPLATE, lambda pod: (_ANY, *pod.devices) if pod.devices else ())
        slices.add_handler(self._slice_changed)
        workloads.add_handler(self._workload_changed)
        pods.add_handler(self._pod_changed)
        view.nodes.add_handler(self._node_changed)
        classes.add_handler(self._class_changed)
        templates.add_handler(self._template_changed)
        for each in self._lazy:
            each.on_synced(self._recount)

    def on_amounts(self, fn: Callable[[AmountsChanged], None]) -> None:
        """Calls `fn` after each relevant change."""
        self._handlers.append(fn)

    # ---- queries

    def refusal(self, workload: Workload) -> tuple[str, str] | None:
        """Returns why it is unknown which nodes have the Workload's devices, as (reason, message), or None."""
        return self._uncounted(workload) or self._refusal_by_name(workload)

    def _uncounted(self, workload: Workload) -> tuple[str, str] | None:
        requesting = [p for p in workload.spec.pod_sets if any(True for _ in claim_templates(p.template.get("spec")))]
        if not requesting:
            return None
        if not self._known():
            return (
                Reason.WAITING_FOR_OBJECTS,
                "ResourceSlices, DeviceClasses and ResourceClaimTemplates are being listed",
            )
        for pod_set in requesting:
            try:
                self._check_counted(self._requested(workload.metadata.namespace, pod_set.template.get("spec")))
            except CannotCount as why:
                if isinstance(why, TooManyKinds):
                    self._refused[workload.key] = None
                return why.reason, f"pod set {pod_set.name}: {why.message}"
        return None

    def _refusal_by_name(self, workload: Workload) -> tuple[str, str] | None:
        """Returns why the Workload's pods would find no node of a topology that is known to have what they request.

        Devices that pods request by the name of an extended resource (`extendedResourceName` of a DeviceClass) are not counted
        on nodes. Without a topology, quota alone counts.
        """
        wanted = _requests_by_name(workload)
        if not wanted or not self._view.implies_topology(workload) or not self._lists_classes():
            return None
        for name in wanted:
            source = next((key for key, one in sorted(self.device_classes.objects.items()) if _backs(one, name)), None)
            if source is not None and not self._is_offered(name):
                self._refused_by_name.setdefault(name, set()).add(workload.key)
                text = (
                    f"{name}: no node offers it, and the devices of DeviceClass {source} are counted for claims alone: "
                    "request them by a ResourceClaimTemplate"
                )
                return Reason.UNSUPPORTED_POD_TERMS, text
        return None

    def _is_offered(self, name: str) -> bool:
        """Reports whether a node itself offers the resource."""
        return any(name in node.status.allocatable for node in self._view.nodes.objects.values())

    def converted(self, workload: Workload, converted: model.Workload) -> model.Workload:
        """Returns the Workload with its pods' devices, which quota does not count; the same object without devices."""
        amounts = dict[str, Mapping[str, int]]()
        for pod_set in workload.spec.pod_sets:
            if any(True for _ in claim_templates(pod_set.template.get("spec"))):
                of_pod = pod_set.template.get("spec")
                amounts[pod_set.name] = self._amounts(
                    workload.metadata.namespace, of_pod, runs=converted.admission is not None
                )
        if not any(amounts.values()):
            return converted
        return replace(
            converted,
            pod_sets=tuple(with_amounts(each, amounts.get(each.name, NOTHING)) for each in converted.pod_sets),
        )

    def taken(self, pod: ProjectedPod) -> Mapping[str, int]:
        """Returns the devices that a bound pod uses on its node."""
        if not pod.devices or not self._kinds:
            return NOTHING
        total = Counter[DeviceKind]()
        for key in pod.devices:
            template = self.claim_templates.objects.get(key) or self._gone.get(key)
            if template is not None:
                try:
                    total += kinds_of(template, self.device_classes.objects)
                except CannotCount:
                    continue
        return self._named(Counter({kind: n for kind, n in total.items() if kind in self._kinds}))

    def offered(self, node: str) -> Mapping[str, int]:
        """Returns the devices that a node has."""
        return self._offers.get(node, NOTHING)

    def _amounts(self, namespace: str | None, spec: Any, *, runs: bool) -> Mapping[str, int]:
        if not self._known():
            return NOTHING
        try:
            requested = self._requested(namespace, spec, runs=runs)
            self._count(requested)
        except CannotCount:
            return NOTHING
        return self._named(sum(requested.values(), Counter[DeviceKind]()))

    def _requested(self, namespace: str | None, spec: Any, *, runs: bool = False) -> dict[str, Counter[DeviceKind]]:
        """Returns the devices that a pod spec requests, by template; with `runs`, deleted templates still count.

        Raises CannotCount.
        """
        total = dict[str, Counter[DeviceKind]]()
        for name, template in claim_templates(spec):
            if not template:
                raise CannotCount(f"ResourceClaim {name}: devices of a claim that pods share are not counted")
            key = object_key(namespace, template)
            template_object = self.claim_templates.objects.get(key) or (self._gone.get(key) if runs else None)
            if template_object is None:
                text = f"waits for ResourceClaimTemplate {template} to be created"
                raise CannotCount(text, Reason.WAITING_FOR_OBJECTS)
            total[key] = total.get(key, Counter[DeviceKind]()) + kinds_of(template_object, self.device_classes.objects)
        return total

    def _named(self, kinds: Mapping[DeviceKind, int]) -> dict[str, int]:
        """Returns amounts by name: of each kind, and of the devices that it shares with others, which all of them use."""
        amounts = {kind.name: number for kind, number in kinds.items()}
        for kind, others in self._beside.items():
            if number := kinds.get(kind, 0) + sum(kinds.get(other, 0) for other in others):
                amounts[kind.shared_name] = number
        return dict(sorted(amounts.items()))

    # ---- counting

    def _lists_classes(self) -> bool:
        if not isinstance(self.device_classes, LazyInformer):
            return True
        self.device_classes.wake()
        return self.device_classes.has_synced

    def _class_changed(self, change: Change[DeviceClass]) -> None:
        self._recount()
        waiting = {key: one for name in _names_of(change) for one in self._by_name(name) for key in (one.key,)}
        if waiting:
            self._notify(AmountsChanged(list(waiting.values())))

    def _by_name(self, name: str) -> Iterable[Workload]:
        return self._workloads.by_index(_BY_RESOURCE, name)

    def _known(self) -> bool:
        for each in self._lazy:
            each.wake()
        return all(each.has_synced for each in self._lazy)

    def _count(self, requested: Mapping[str, Iterable[DeviceKind]]) -> None:
        """Starts to count the kinds that these templates request. Raises CannotCount if there are too many."""
        new, left = self._kinds.add(requested)
        for kind in left:
            self._counted.discard(kind)
            for other in self._beside.pop(kind, ()):
                self._beside[other].discard(kind)
        if new:
            self._beside = {kind: others for kind, others in self._beside.items() if others}
            self._recount()

    def _check_counted(self, requested: Mapping[str, Iterable[DeviceKind]]) -> None:
        """Raises CannotCount while a kind is not counted yet."""
        self._count(requested)
        for kinds in requested.values():
            for kind in kinds:
                if kind not in self._counted:
                    raise CannotCount(f"{kind.name} are being counted", Reason.WAITING_FOR_OBJECTS)

    def _users(self, template: str) -> bool:
        copies: tuple[Copy[Any], ...] = (self._workloads, self._pods)
        return any(copy.by_index(_BY_TEMPLATE, template) for copy in copies)

    def _in_use(self, kind: DeviceKind, template: str) -> bool:
        template_object = self.claim_templates.objects.get(template) or self._gone.get(template)
        if template_object is None or not self._users(template):
            return False
        try:
            return kind in kinds_of(template_object, self.device_classes.objects)
        except CannotCount:
            return False

    def _recount(self) -> None:
        self._steps.start(self._recounting())

    def _recounting(self) -> Iterator[None]:
        """Counts every node, then reports the pods and Workloads that use devices."""
        kinds = list(self._kinds)
        if kinds:
            nodes = {each.spec.node_name for each in self.resource_slices.objects.values() if each.spec.node_name}
            pairs = -1
            while pairs != self._pairs():  # a node may be the first whose devices two kinds share
                pairs = self._pairs()
                for node in sorted(nodes | self._offers.keys()):
                    self._count_node(node)
                    self._notify(AmountsChanged(nodes=[node]))
                    yield
            for pod in self._pods.by_index(_BY_TEMPLATE, _ANY):
                self._notify(AmountsChanged(pods=[pod]))
                yield
            self._counted |= set(kinds)
        self._notify(AmountsChanged(self._workloads.by_index(_BY_TEMPLATE, _ANY)))

    def _count_node(self, node: str) -> None:
        counts, shared = counted(
            self.resource_slices.by_index(_BY_NODE, node), self._kinds, self.device_classes.objects
        )
        for one, other in map(tuple, shared):
            self._beside.setdefault(one, set()).add(other)
            self._beside.setdefault(other, set()).add(one)
        self._offers.pop(node, None)
        if counts:
            limited = {kind for pair in shared for kind in pair}
            beside = {kind.shared_name: counts[kind] if kind in limited else LARGEST for kind in self._beside}
            self._offers[node] = {**{kind.name: number for kind, number in counts.items()}, **beside}

    def _pairs(self) -> int:
        """Returns how often kinds are known to share devices; it only grows."""
        return sum(map(len, self._beside.values()))

    def _slice_changed(self, change: Change[ResourceSlice]) -> None:
        if not self._kinds:
            return
        was = change.old.spec.node_name if change.old is not None else ""
        nodes = {name for name in (change.object.spec.node_name, was) if name}
        shared = self._pairs()
        for node in nodes:
            self._count_node(node)
        if self._pairs() > shared:
            self._recount()
        else:
            self._notify(AmountsChanged(nodes=sorted(nodes)))

    def _node_changed(self, change: Change[Node]) -> None:
        """Reports the Workloads that were refused because no node offered what this one offers now."""
        before = change.old.status.allocatable if change.old is not None else {}
        if change.type is ChangeType.DELETED or not (new := change.object.status.allocatable.keys() - before.keys()):
            return
        keys = {key for name in new for key in self._refused_by_name.pop(name, ())}
        if refused := [one for key in sorted(keys) if (one := self._workloads.objects.get(key)) is not None]:
            self._notify(AmountsChanged(refused))

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.type is ChangeType.DELETED:
            self._refused.pop(change.key, None)
            for refused in self._refused_by_name.values():
                refused.discard(change.key)
        if (
            self._refused
            and (change.type is ChangeType.DELETED or _ended(change.object))
            and _filed(change.old or change.object)
        ):
            self._retry()

    def _pod_changed(self, change: Change[ProjectedPod]) -> None:
        had = change.old is not None and change.old.devices
        if self._refused and had and (change.type is ChangeType.DELETED or not change.object.devices):
            self._retry()

    def _retry(self) -> None:
        """Reports some Workloads that requested what was not counted, the next ones at the next call."""
        keys = list(itertools.islice(self._refused, _AT_ONCE))
        for key in keys:
            del self._refused[key]
        self._notify(AmountsChanged([each for key in keys if (each := self._workloads.objects.get(key))]))

    def _template_changed(self, change: Change[ResourceClaimTemplate]) -> None:
        key = change.key
        if change.type is ChangeType.DELETED:
            self._gone[key] = change.object
        self._notify(
            AmountsChanged(self._workloads.by_index(_BY_TEMPLATE, key), pods=self._pods.by_index(_BY_TEMPLATE, key))
        )

    def _notify(self, changed: AmountsChanged) -> None:
        for fn in self._handlers:
            fn(changed)


def _ended(workload: Workload) -> bool:
    return is_true(workload.status.conditions, FINISHED)


def _requests_by_name(workload: Workload) -> list[str]:
    """Returns the extended resources that the pods of an unfinished Workload request."""
    if _ended(workload):
        return []
    return sorted({name for one in workload.spec.pod_sets for name in extended_resources(one.template.get("spec"))})


def _backs(device_class: DeviceClass, name: str) -> bool:
    return name in (device_class.spec.extended_resource_name, f"{IMPLICIT}{device_class.key}")


def _names_of(change: Change[DeviceClass]) -> set[str]:
    """Returns the extended resources that the class backs or backed."""
    classes = [one for one in (change.old, change.object) if one is not None]
    return {name for one in classes for name in (one.spec.extended_resource_name, f"{IMPLICIT}{one.key}") if name}


def _filed(workload: Workload) -> list[str]:
    if _ended(workload):
        return []
    keys = [
        object_key(workload.metadata.namespace, template)
        for pod_set in workload.spec.pod_sets
        for _, template in claim_templates(pod_set.template.get("spec"))
    ]
    return [_ANY, *dict.fromkeys(keys)] if keys else []
