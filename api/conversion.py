"""Converts objects of kueue.x-k8s.io between v1beta1 and v1beta2, field by field, as Kueue does.

Both directions take a decoded JSON object and return a new one; the given object is not changed. Fields that are equal in both
versions pass through, unknown fields too. A field that only one version has is dropped, as in Kueue:
`podsetSliceRequiredTopologyConstraints` (v1beta2), `retryDelayMinutes`, `pendingWorkloadsStatus` and a LocalQueue's
`status.flavors` (v1beta1).

The API server fails a whole list if one of its objects fails to convert, so conversion of an object never fails: an
unreadable part is left out, and an unreadable `spec` or `status` stays unchanged. The annotation CONVERSION_PROBLEM, the only
metadata that a conversion may change, names both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from api import assignment
from api.errors import InvalidObject
from api.names import CONVERSION_PROBLEM, GROUP
from api.topology_assignment import MAX_DOMAINS, TopologyAssignment
from api.workloads import MAX_POD_SETS

Wire = dict[str, Any]

V1BETA1: Final = "v1beta1"
V1BETA2: Final = "v1beta2"

WORKLOAD_CLASS: Final = f"{GROUP}/workloadpriorityclass"
POD_CLASS: Final = "scheduling.k8s.io/priorityclass"
_CLASS_GROUPS: Final = {
    WORKLOAD_CLASS: (GROUP, "WorkloadPriorityClass"),
    POD_CLASS: ("scheduling.k8s.io", "PriorityClass"),
}
# Values of flavorFungibility before Kueue renamed them.
_OLD_FUNGIBILITY: Final = ("Borrow", "Preempt")
_TIME, _MISSPELT_TIME = "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds"


_CANNOT_BE_READ: Final = (
    InvalidObject,
    ValidationError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
_LONGEST_VALUE: Final = 63
"""Most characters of a label value, and so of a domain's value."""
_LONGEST_TEXT: Final = 16 * 1024 * 1024
"""Most characters of one object's domains as plain JSON: MAX_DOMAINS with two or three long values. Without this limit a few
bytes of the compact form could expand to any number of domains."""
_MOST_PODS: Final = 2**31 - 1


def convert(obj: Mapping[str, Any], version: str) -> Wire:
    """Returns the object in a version of kueue.x-k8s.io. Raises InvalidObject for another group or an unknown version."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    api_version = api_version if isinstance(api_version, str) else ""
    group, _, given = api_version.partition("/")
    if group != GROUP or given not in (V1BETA1, V1BETA2):
        raise InvalidObject("apiVersion", api_version[:100], f"must be {GROUP}/{V1BETA1} or {GROUP}/{V1BETA2}")
    if version not in (V1BETA1, V1BETA2):
        raise InvalidObject("desiredAPIVersion", version[:100], f"must be {V1BETA1} or {V1BETA2}")
    out = {**obj, "apiVersion": f"{GROUP}/{version}"}
    if given != version:
        table = _UP if version == V1BETA2 else _DOWN
        problems: list[str] = []
        for part in ("spec", "status"):
            change = table.get((str(kind), part))
            if change is not None and isinstance(obj.get(part), Mapping):
                try:
                    out[part] = change(dict(obj[part]), problems)
                except _CANNOT_BE_READ as bad:
                    problems.append(_unreadable(part, bad))
        _note(out, problems)
    return out


def _note(out: Wire, problems: list[str]) -> None:
    if problems:
        meta = out.get("metadata")
        meta = dict(meta) if isinstance(meta, Mapping) else {}
        annotations = meta.get("annotations")
        known = dict(annotations) if isinstance(annotations, Mapping) else {}
        out["metadata"] = {**meta, "annotations": {**known, CONVERSION_PROBLEM: "; ".join(problems)}}


def _unreadable(field: str, bad: Exception) -> str:
    # A ValidationError's text has a paragraph for each error, of which there may be 100,000.
    why = f"{bad.error_count()} errors" if isinstance(bad, ValidationError) else str(bad)[:200].split("\n", 1)[0]
    return f"{field} cannot be read: {type(bad).__name__}: {why}"


Change = Callable[[Wire, list[str]], Wire]


def _renamed(part: Wire, old: str, new: str) -> None:
    if old in part:
        part[new] = part.pop(old)


# ---- ClusterQueue


def _queue_up(spec: Wire, _: list[str]) -> Wire:
    _renamed(spec, "cohort", "cohortName")
    names = spec.pop("admissionChecks", None)
    if names and isinstance(names, list) and "admissionChecksStrategy" not in spec:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in names]}
    fungibility = spec.get("flavorFungibility")
    if isinstance(fungibility, Mapping):
        spec["flavorFungibility"] = {
            name: "MayStopSearch" if value in _OLD_FUNGIBILITY else value for name, value in fungibility.items()
        }
    return spec


def _queue_down(spec: Wire, _: list[str]) -> Wire:
    _renamed(spec, "cohortName", "cohort")
    return spec


def _queue_status_up(status: Wire, _: list[str]) -> Wire:
    status.pop("pendingWorkloadsStatus", None)
    return status


# ---- LocalQueue


def _local_status_up(status: Wire, _: list[str]) -> Wire:
    _renamed(status, "flavorUsage", "flavorsUsage")
    status.pop("flavors", None)
    return status


def _local_status_down(status: Wire, _: list[str]) -> Wire:
    _renamed(status, "flavorsUsage", "flavorUsage")
    return status


# ---- AdmissionCheck


def _check_up(spec: Wire, _: list[str]) -> Wire:
    spec.pop("retryDelayMinutes", None)
    return spec


# ---- Workload


def _workload_up(spec: Wire, _: list[str]) -> Wire:
    source, name = spec.pop("priorityClassSource", ""), spec.pop("priorityClassName", "")
    if isinstance(source, str) and source in _CLASS_GROUPS and name:
        group, kind = _CLASS_GROUPS[source]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name}
    return spec


def _workload_down(spec: Wire, _: list[str]) -> Wire:
    ref = spec.pop("priorityClassRef", None)
    if isinstance(ref, Mapping):
        spec["priorityClassSource"] = WORKLOAD_CLASS if ref.get("group") == GROUP else POD_CLASS
        spec["priorityClassName"] = ref.get("name", "")
    if isinstance(spec.get("podSets"), list):
        spec["podSets"] = [_pod_set_down(pod_set) for pod_set in spec["podSets"]]
    return spec


def _pod_set_down(pod_set: Any) -> Any:
    request = pod_set.get("topologyRequest") if isinstance(pod_set, Mapping) else None
    if not isinstance(request, Mapping) or "podsetSliceRequiredTopologyConstraints" not in request:
        return pod_set
    kept = {name: value for name, value in request.items() if name != "podsetSliceRequiredTopologyConstraints"}
    return {**pod_set, "topologyRequest": kept}


def _workload_status_up(status: Wire, problems: list[str]) -> Wire:
    _renamed(status, _MISSPELT_TIME, _TIME)
    return _with_assignments(status, _compact, problems)


def _workload_status_down(status: Wire, problems: list[str]) -> Wire:
    _renamed(status, _TIME, _MISSPELT_TIME)
    domains, text = MAX_DOMAINS, _LONGEST_TEXT  # the remaining budget of later pod sets

    def plain(compact: Any) -> Wire:
        nonlocal domains, text
        wire_form = TopologyAssignment.from_wire(compact)
        count, length = assignment.domain_count(wire_form), assignment.text_length(wire_form)
        for given, left, what in ((count, domains, "domains"), (length, text, "characters in plain form")):
            if given > left:
                raise InvalidObject("slices", f"{given} {what}", f"must be at most {left}")
        domains, text = domains - count, text - length
        return _plain(wire_form)

    return _with_assignments(status, plain, problems)


def _with_assignments(status: Wire, change: Callable[[Any], Wire], problems: list[str]) -> Wire:
    """Applies `change` to the topologyAssignment of every pod set."""
    admission = status.get("admission")
    pod_sets = admission.get("podSetAssignments") if isinstance(admission, Mapping) else None
    if isinstance(pod_sets, list):
        if len(pod_sets) > MAX_POD_SETS:
            raise InvalidObject("podSetAssignments", f"{len(pod_sets)} items", f"must be at most {MAX_POD_SETS}")
        field = "status.admission.podSetAssignments[{}].topologyAssignment"
        changed = [_assigned(one, change, field.format(index), problems) for index, one in enumerate(pod_sets)]
        status["admission"] = {**(admission or {}), "podSetAssignments": changed}
    return status


def _assigned(pod_set: Any, change: Callable[[Any], Wire], field: str, problems: list[str]) -> Any:
    if not isinstance(pod_set, Mapping) or pod_set.get("topologyAssignment") is None:
        return pod_set
    try:
        return {**pod_set, "topologyAssignment": change(pod_set["topologyAssignment"])}
    except _CANNOT_BE_READ as bad:
        problems.append(_unreadable(field, bad))
        return {name: value for name, value in pod_set.items() if name != "topologyAssignment"}


def _compact(plain: Any) -> Wire:
    levels = [str(level) for level in plain["levels"]]
    domains = [(tuple(map(str, domain["values"])), int(domain["count"])) for domain in plain.get("domains") or ()]
    for values, count in domains:
        if len(values) != len(levels):
            raise InvalidObject("values", list(values), f"must have one item per level, there are {len(levels)}")
        if max(map(len, values), default=0) > _LONGEST_VALUE:  # the encoder visits every prefix of a value
            raise InvalidObject("values", f"{max(map(len, values))} characters", f"must be at most {_LONGEST_VALUE}")
        if not 0 <= count <= _MOST_PODS:
            raise InvalidObject("count", str(count)[:30], f"must be between 0 and {_MOST_PODS}")
    return assignment.encode(levels, domains).to_wire()


def _plain(compact: TopologyAssignment) -> Wire:
    domains = [{"values": list(values), "count": count} for values, count in assignment.decode(compact)]
    return {"levels": list(compact.levels), "domains": domains}


_UP: Final[Mapping[tuple[str, str], Change]] = {
    ("ClusterQueue", "spec"): _queue_up,
    ("ClusterQueue", "status"): _queue_status_up,
    ("LocalQueue", "status"): _local_status_up,
    ("AdmissionCheck", "spec"): _check_up,
    ("Workload", "spec"): _workload_up,
    ("Workload", "status"): _workload_status_up,
}
_DOWN: Final[Mapping[tuple[str, str], Change]] = {
    ("ClusterQueue", "spec"): _queue_down,
    ("LocalQueue", "status"): _local_status_down,
    ("Workload", "spec"): _workload_down,
    ("Workload", "status"): _workload_status_down,
}
CONVERTED: Final = frozenset(kind for kind, _ in _DOWN)
"""Kinds with a field that has another name in each version. Of others a conversion only drops fields, as the server does."""
