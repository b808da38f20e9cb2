"""Merges what admission adds into a pod set's template at the start, and restores the template at the stop. Pure.

Job adapters call it for each template; admission/controllers/jobs/plan/pod_set_infos.py computes the additions. A template is a
decoded PodTemplateSpec and is never changed in place. Maps merge key by key: a key that has another value already is a
permanent conflict, since the job cannot start as admitted. Stowage's own keys are overwritten, so that a stale key copied from
another job's manifest cannot keep this job from starting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final

from api import names
from api.errors import StowageError

Template = Mapping[str, Any]
Strings = Mapping[str, str]

# Only Stowage writes these keys, so a present value is stale.
OWN_ANNOTATIONS: Final = frozenset(
    (names.WORKLOAD_ANNOTATION, names.WORKLOAD_SLICE_NAME, names.TOPOLOGY_WORKLOAD, names.TOPOLOGY_PODSET)
)
OWN_LABELS: Final = frozenset((names.PODSET_LABEL, names.LOCAL_QUEUE_LABEL, names.CLUSTER_QUEUE_LABEL))


class PodSetConflict(StowageError):
    """Two values for one map key; `field` is labels, annotations or nodeSelector."""

    def __init__(self, field: str, key: str, old: str, new: str, source: str = "") -> None:
        self.field, self.key, self.old, self.new, self.source = field, key, old, new, source
        where = f'in admission check "{source}": ' if source else ""
        super().__init__(
            f"{where}invalid admission check PodSetUpdate: conflict for {field}: "
            f"conflict for key={key}, value1={old}, value2={new}"
        )


@dataclass(frozen=True, slots=True)
class PodSetInfo:
    """What a start adds to one pod set."""

    name: str
    count: int
    """The number of admitted pods."""
    labels: Strings = field(default_factory=dict)
    annotations: Strings = field(default_factory=dict)
    node_selector: Strings = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    scheduling_gates: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    """Scheduling gates to remove."""

    def merged(
        self,
        *,
        labels: Strings | None = None,
        annotations: Strings | None = None,
        node_selector: Strings | None = None,
        tolerations: Iterable[Mapping[str, Any]] = (),
        source: str = "",
    ) -> PodSetInfo:
        """Returns a copy with the additions merged in. Raises PodSetConflict, naming `source`, for a key with two values."""
        return PodSetInfo(
            self.name,
            self.count,
            merged_map("labels", self.labels, labels or {}, source=source),
            merged_map("annotations", self.annotations, annotations or {}, source=source),
            merged_map("nodeSelector", self.node_selector, node_selector or {}, source=source),
            _union(self.tolerations, tolerations),
            self.scheduling_gates,
            self.opened,
        )


def merged_map(
    field: str, old: Strings, new: Strings, *, own: frozenset[str] = frozenset(), source: str = ""
) -> Strings:
    """Returns the union of both maps; keys in `own` take the new value. Raises PodSetConflict for other keys with two
    values."""
    for key, value in new.items():
        if key in old and old[key] != value and key not in own:
            raise PodSetConflict(field, key, old[key], value, source)
    return {**old, **new}


def applied(template: Template, info: PodSetInfo) -> dict[str, Any]:
    """Returns the template with the info merged in. Raises PodSetConflict."""
    meta, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    # A label left over from another start would hide pods that are gated now from the ungater.
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != names.OPENED_LABEL}
    _set(meta, "labels", merged_map("labels", labels, info.labels, own=OWN_LABELS))
    _set(
        meta,
        "annotations",
        merged_map("annotations", meta.get("annotations") or {}, info.annotations, own=OWN_ANNOTATIONS),
    )
    _set(spec, "nodeSelector", merged_map("nodeSelector", spec.get("nodeSelector") or {}, info.node_selector))
    _set(spec, "tolerations", list(_union(spec.get("tolerations") or (), info.tolerations)))
    gates = _union(spec.get("schedulingGates") or (), [{"name": name} for name in info.scheduling_gates])
    _set(spec, "schedulingGates", [gate for gate in gates if gate.get("name") not in info.opened])
    return {**template, "metadata": meta, "spec": spec}


def restored(template: Template, original: Template, keep_labels: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Returns the template with every field that `applied` may change restored from `original`, except `keep_labels`."""
    meta, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    old_meta, old_spec = original.get("metadata") or {}, original.get("spec") or {}
    kept = {key: value for key, value in (meta.get("labels") or {}).items() if key in keep_labels}
    _set(meta, "labels", {**(old_meta.get("labels") or {}), **kept})
    _set(meta, "annotations", dict(old_meta.get("annotations") or {}))
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        _set(spec, name, old_spec.get(name))
    return {**template, "metadata": meta, "spec": spec}


def without_leftovers(template: Template, wanted: Mapping[str, Any], flavor_labels: Set[str]) -> dict[str, Any]:
    """Removes from the template flavors' node labels and Stowage's topology gate, unless the `wanted` spec has them."""
    spec = dict(template.get("spec") or {})
    stale = flavor_labels - (wanted.get("nodeSelector") or {}).keys()
    _set(spec, "nodeSelector", {k: v for k, v in (spec.get("nodeSelector") or {}).items() if k not in stale})
    ours = {"name": names.TOPOLOGY_GATE}
    if ours not in (wanted.get("schedulingGates") or ()):
        _set(spec, "schedulingGates", [gate for gate in spec.get("schedulingGates") or () if gate != ours])
    return {**template, "spec": spec}


def kept_template(template: Template, drop_labels: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Returns what a Workload stores of a template: the spec, and labels and annotations without `drop_labels`."""
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key not in drop_labels}
    kept: dict[str, Any] = {}
    _set(kept, "labels", labels)
    _set(kept, "annotations", dict(meta.get("annotations") or {}))
    return {"metadata": kept, "spec": template.get("spec") or {}}


def _set(where: dict[str, Any], key: str, value: Any) -> None:
    """Sets the key, or removes it if the value is empty."""
    if value:
        where[key] = value
    else:
        where.pop(key, None)


def _union(first: Iterable[Mapping[str, Any]], more: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Returns the first list followed by the items of the second that it lacks."""
    out = list(first)
    out.extend(item for item in more if item not in out)
    return tuple(out)
