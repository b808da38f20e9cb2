"""The adapter of kinds that a JobKind declares by their scale: nothing suspends them, so their pods are gated as one group.
Pure.

The group has one pod set `main` with as many pods as the object's scale says. Its template is the object's, if the JobKind has
a path to it, else that of one of its pods. The object names the queue; the webhook writes it into the template, or, without a
template to write into, pods name the queue themselves. With the annotation `elastic-job` the object may be resized while it
runs (controllers/pods/sets/set_slices.py). A pod belongs to the object that is its controller or, if the template was marked,
that its annotation names: then other objects (a ReplicaSet) may be in between.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from admission.integrations.elastic import asks_for_elastic
from admission.integrations.names import workload_name
from admission.integrations.paths import fields, value_at
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.podset import kept_template
from admission.integrations.sets.replica_groups import PodMembership, ReplicaGroup
from api import names
from api.annotations.requests import topology_request
from api.errors import InvalidObject
from api.job_kinds import JobKindSpec, Scale
from api.kube.resources import Resource
from api.pod.labels import matches
from api.text.label_text import parse_selector
from api.workloads import PodSet

MAIN: Final = "main"
MOST_PODS: Final = 1_000_000
_WHOLE: Final = f"must be a whole number from 0 to {MOST_PODS}"


class ScaledSet:
    """The adapter of one scaled kind; SetKind documents the methods."""

    def __init__(self, spec: JobKindSpec) -> None:
        self.spec = spec
        self.scale = spec.scale or Scale()
        self.resource = Resource(spec.group, spec.version, spec.plural, spec.kind)
        self.framework = f"{spec.group}/{spec.kind.lower()}"
        self.template_at = fields(self.scale.template or "")
        self.needs_pod = not self.template_at

    def groups(
        self,
        obj: Mapping[str, Any],
        present: Collection[int],
        *,
        topology: bool = True,
        short: bool = False,
        example: Mapping[str, Any] | None = None,
    ) -> tuple[ReplicaGroup, ...]:
        """See SetKind. Returns nothing without a template or an example pod."""
        workload, replicas = self._workload(obj, short), self.replicas(obj)
        self.selector(obj)
        if not replicas:
            return (ReplicaGroup(0, workload, on_hold=True),)
        template = self.template(obj) if self.template_at else example
        if template is None:
            return ()
        kept, least = kept_template(template), self.least(obj)
        given: dict[str, Any] = {"name": MAIN, "template": kept, "count": replicas}
        if least is not None and least < replicas:
            given["min_count"] = least
        if topology:
            annotations = (obj.get("metadata") or {}).get("annotations")
            own = kept["metadata"].get("annotations")
            index = self.spec.rank_label
            given["topology_request"] = topology_request(own, job_annotations=annotations, pod_index_label=index)
        return (ReplicaGroup(0, workload, (PodSet(**given),)),)

    def may_resize(self, obj: Mapping[str, Any]) -> bool:
        """See SetKind."""
        return asks_for_elastic(obj)

    def set_of(self, pod: QueuedPod) -> str:
        """See SetKind."""
        return pod.annotations.get(names.SET_NAME) or pod.owner

    def index_of(self, pod: QueuedPod) -> int | None:
        """See SetKind."""
        return 0

    def membership(self, obj: Mapping[str, Any], pod: QueuedPod, *, short: bool = False) -> PodMembership | None:
        """See SetKind."""
        return PodMembership(self._workload(obj, short), MAIN)

    # ---- fields of the object

    def replicas(self, obj: Mapping[str, Any]) -> int:
        """Returns the number of pods that the object asks for. Raises InvalidObject."""
        factor = self.scale.replicas
        value = value_at(obj, fields(factor.path))
        number = factor.default if value is None else _whole(factor.path, value, obj)
        return number if factor.least is None else max(number, factor.least)

    def template(self, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the object's pod template. Raises InvalidObject."""
        template = value_at(obj, self.template_at)
        if not isinstance(template, Mapping):
            raise InvalidObject(self.scale.template or "", template, "must be a pod template", _name(obj))
        return template

    def selector(self, obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Returns the selector of the object's pods, or None if it does not state one. Raises InvalidObject."""
        path = self.scale.selector
        text = value_at(obj, fields(path)) if path else None
        return None if path is None or text in (None, "") else parse_selector(text, path, _name(obj))

    def pod_fault(self, pod: Mapping[str, Any], obj: Mapping[str, Any]) -> str:
        """Returns why the pod does not belong to the object, or an empty string; the controller reports unreadable
        selectors."""
        try:
            wanted = self.selector(obj)
        except InvalidObject:
            return ""
        labels = (pod.get("metadata") or {}).get("labels") or {}
        return "" if wanted is None or matches(wanted, labels) else f"has only pods that {self.scale.selector} selects"

    def least(self, obj: Mapping[str, Any]) -> int | None:
        """Returns the number of pods with which an elastic object may start, or None. Raises InvalidObject."""
        path = self.scale.minimum
        value = value_at(obj, fields(path)) if path and self.may_resize(obj) else None
        return None if path is None or value is None else max(1, _whole(path, value, obj))

    def _workload(self, obj: Mapping[str, Any], short: bool) -> str:
        meta = obj["metadata"]
        return workload_name(self.resource, meta["name"], meta.get("uid", ""), short=short)


def _whole(path: str, value: Any, obj: Mapping[str, Any]) -> int:
    if type(value) is not int or not 0 <= value <= MOST_PODS:
        raise InvalidObject(path, value, _WHOLE, _name(obj))
    return value


def _name(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("name") or "")
