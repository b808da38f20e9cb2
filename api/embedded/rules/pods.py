"""Rules of Pods: defaults, the status of a new pod, and which fields may change, especially while gated.

Follows ValidatePodUpdate of Kubernetes 1.36, based on the OLD pod: gates may only be removed; while gated, the node selector
may only grow and required node affinity only narrow; tolerations may be added at any time; otherwise only images and
activeDeadlineSeconds may change. binding.py has the binding subresource. PriorityClass and RuntimeClass are applied.

Not supported: validation of a new pod beyond its containers, in-place resize, ephemeral containers.
"""

from __future__ import annotations

from typing import Any

from api.embedded.rules.base import ClusterLookup, StorageRules, same
from api.embedded.rules.podspec import default_pod_spec
from api.embedded.status import Cause, Obj, ResourceRef, forbidden, forbidden_field, invalid_value, required

_UPDATABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_PODS = ResourceRef("", "pods", "Pod")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


class PodRules(StorageRules):
    def default(self, obj: Obj) -> None:
        spec = obj.setdefault("spec", {})
        default_pod_spec(spec)
        spec.setdefault("enableServiceLinks", True)
        _default_requests(spec)

    def admit_create(self, cluster: ClusterLookup, obj: Obj) -> None:
        _priority(cluster, obj)
        _runtime(cluster, obj)
        _default_tolerations(obj["spec"])

    def admit_update(self, cluster: ClusterLookup, obj: Obj) -> None:
        _default_tolerations(obj["spec"])

    def prepare_create(self, cluster: ClusterLookup, obj: Obj) -> None:
        obj["status"] = {"phase": "Pending", "qosClass": _qos(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            gated: Obj = {"type": "PodScheduled", "status": "False", "lastProbeTime": None}
            gated |= {"lastTransitionTime": cluster.now(), "reason": "SchedulingGated", "message": GATED_MESSAGE}
            obj["status"]["conditions"] = [gated]

    def check_create(self, cluster: ClusterLookup, obj: Obj) -> list[Cause]:
        return check_pod_spec(obj["spec"], "spec")

    def check_update(self, cluster: ClusterLookup, new: Obj, old: Obj) -> list[Cause]:
        return check_pod_update(new["spec"], old["spec"])

    def grace(self, obj: Obj, seconds: int | None) -> int | None:
        """Returns 0 for a pod that is not running, which is removed at once; else the grace period for the kubelet."""
        spec = obj["spec"]
        if not spec.get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        return int(seconds if seconds is not None else spec.get("terminationGracePeriodSeconds", 30))


def _default_requests(spec: Obj) -> None:
    """Sets missing requests from limits; pods have this default, templates do not."""
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if limits := container["resources"].get("limits"):
            container["resources"]["requests"] = {**limits, **(container["resources"].get("requests") or {})}


def _priority(cluster: ClusterLookup, pod: Obj) -> None:
    """Applies the Priority plugin: sets the class's value, or raises status 403."""
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    priority_class = cluster.find("scheduling.k8s.io", "priorityclasses", name) if name else None
    if name and priority_class is None:
        why = f"no PriorityClass with name {name} was found"
        raise forbidden(_PODS, pod["metadata"].get("name", ""), why)
    spec.setdefault("priority", int(priority_class.get("value", 0)) if priority_class else 0)
    spec.setdefault("preemptionPolicy", (priority_class or {}).get("preemptionPolicy", "PreemptLowerPriority"))


def _runtime(cluster: ClusterLookup, pod: Obj) -> None:
    """Applies the RuntimeClass plugin: overhead, node selector and tolerations of the class, or raises status 403."""
    spec, name = pod["spec"], pod["spec"].get("runtimeClassName")
    if not name:
        return
    runtime_class = cluster.find("node.k8s.io", "runtimeclasses", name)
    if runtime_class is None:
        why = f'pod rejected: RuntimeClass "{name}" not found'
        raise forbidden(_PODS, pod["metadata"].get("name", ""), why)
    if overhead := (runtime_class.get("overhead") or {}).get("podFixed"):
        spec["overhead"] = overhead
    scheduling, own = runtime_class.get("scheduling") or {}, spec.get("nodeSelector") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if own.setdefault(key, value) != value:
            why = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own[key]}"
            raise forbidden(_PODS, pod["metadata"].get("name", ""), why)
    if own:
        spec["nodeSelector"] = own
    known = spec.get("tolerations") or []
    if more := [each for each in scheduling.get("tolerations") or () if each not in known]:
        spec["tolerations"] = [*known, *more]


def _default_tolerations(spec: Obj) -> None:
    """Applies the DefaultTolerationSeconds plugin: tolerates not-ready and unreachable nodes for five minutes."""
    tolerations = list(spec.get("tolerations") or ())
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(
            item.get("key") in (key, None, "") and item.get("effect") in ("NoExecute", None, "") for item in tolerations
        ):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    spec["tolerations"] = tolerations


def _qos(spec: Obj) -> str:
    resources = [
        item.get("resources") or {} for item in (*spec.get("containers", ()), *(spec.get("initContainers") or ()))
    ]
    if not any(item.get("requests") or item.get("limits") for item in resources):
        return "BestEffort"
    whole = all(
        {"cpu", "memory"} <= (item.get("limits") or {}).keys() and item.get("requests") == item["limits"]
        for item in resources
    )
    return "Guaranteed" if whole else "Burstable"


def check_pod_spec(spec: Obj, path: str) -> list[Cause]:
    """Returns errors in a new pod's or template's spec: containers, and nodeName with gates."""
    causes = [] if spec.get("containers") else [required(f"{path}.containers")]
    for i, container in enumerate(spec.get("containers") or ()):
        causes += [required(f"{path}.containers[{i}].{name}") for name in ("name", "image") if not container.get(name)]
    if spec.get("schedulingGates") and spec.get("nodeName"):
        why = "nodeName cannot be set until all schedulingGates have been cleared"
        causes.append(forbidden_field(f"{path}.nodeName", why))
    return causes


def check_pod_update(new: Obj, old: Obj) -> list[Cause]:
    """Returns the errors of replacing the spec `old` by `new`."""
    for name in ("containers", "initContainers"):
        if len(new.get(name) or ()) != len(old.get(name) or ()):
            return [forbidden_field(f"spec.{name}", "pod updates may not add or remove containers")]
    causes = [*_tolerations(new, old), *_gates(new, old)]
    left = _munged(new, old)
    if old.get("schedulingGates"):
        causes += [*_node_selector(left, old), *_node_affinity(left, old)]
    if not same(left, old):
        changed = sorted(name for name in left.keys() | old.keys() if not same(left.get(name), old.get(name)))
        fields = ",".join(_UPDATABLE)
        causes.append(
            forbidden_field("spec", f"pod updates may not change fields other than {fields}\n{', '.join(changed)}")
        )
    return causes


def _tolerations(new: Obj, old: Obj) -> list[Cause]:
    def key(item: Obj) -> Obj:
        return {name: value for name, value in item.items() if name != "tolerationSeconds" and value}

    given = [key(item) for item in new.get("tolerations") or ()]
    if all(key(item) in given for item in old.get("tolerations") or ()):
        return []
    return [forbidden_field("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _gates(new: Obj, old: Obj) -> list[Cause]:
    known = {gate["name"] for gate in old.get("schedulingGates") or ()}
    return [
        forbidden_field(
            f"spec.schedulingGates[{i}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for i, gate in enumerate(new.get("schedulingGates") or ())
        if gate["name"] not in known
    ]


def _munged(new: Obj, old: Obj) -> Obj:
    """Returns `new` with the old values of all fields that may change or were checked already."""
    left = dict(new)
    for name in ("schedulingGates", "tolerations", "activeDeadlineSeconds"):
        left[name] = old.get(name)
    for name in ("containers", "initContainers"):
        pairs = zip(new.get(name) or (), old.get(name) or (), strict=True)
        left[name] = [{**one, "image": other.get("image")} for one, other in pairs]
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        left["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    return left


def _node_selector(left: Obj, old: Obj) -> list[Cause]:
    given, had = left.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    left["nodeSelector"] = old.get("nodeSelector")
    if had.items() <= given.items():
        return []
    why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [invalid_value("spec.nodeSelector", given, why)]


def _node_affinity(left: Obj, old: Obj) -> list[Cause]:
    given = (left.get("affinity") or {}).get("nodeAffinity")
    had = (old.get("affinity") or {}).get("nodeAffinity")
    if same(given, had):
        return []
    rest = {name: value for name, value in (left.get("affinity") or {}).items() if name != "nodeAffinity"}
    left["affinity"] = {**rest, "nodeAffinity": had} if had else rest
    return _narrowing(given or {}, had or {})


def _narrowing(affinity: Obj, previous: Obj) -> list[Cause]:
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    new_terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    old_terms = (previous.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if not old_terms:
        return []
    if len(old_terms) != len(new_terms):
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid_value(path, new_terms or None, why)]
    why = "only additions are allowed (no mutations or deletions)"
    return [
        invalid_value(f"{path}[{i}]", new, why)
        for i, (new, old) in enumerate(zip(new_terms, old_terms, strict=True))
        if not _only_additions(new, old)
    ]


def _only_additions(new: dict[str, Any], old: dict[str, Any]) -> bool:
    names = ("matchExpressions", "matchFields")
    if not any(old.get(name) for name in names):
        return not any(new.get(name) for name in names)
    return all(same((new.get(name) or [])[: len(old[name])], old[name]) for name in names if old.get(name))
