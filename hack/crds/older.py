"""Derives the v1beta1 schema of each kind of kueue.x-k8s.io from the v1beta2 schema.

The counterpart of `api.conversion`, which converts objects; tests compare both. Kinds that are equal in both versions are not
listed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, Final

from api.conversion import POD_CLASS, WORKLOAD_CLASS
from api.schema import DNS_SUBDOMAIN, Schema, rule

_RULES = "x-kubernetes-validations"
_NAME: Schema = {"type": "string", "maxLength": 253, "pattern": DNS_SUBDOMAIN}


def older(kind: str, schema: Schema) -> Schema:
    """Returns the v1beta1 form of a v1beta2 schema of the whole object, as a copy."""
    made = copy.deepcopy(schema)
    change = _CHANGES.get(kind)
    if change is not None:
        change(made)
    return made


def _part(schema: Schema, *path: str) -> Schema:
    for name in path:
        schema = schema["items"] if name == "[]" else schema["properties"][name]
    return schema


def _rename(schema: Schema, old: str, new: str) -> None:
    """Renames a property in place, also in the rules and lists of its object."""
    schema["properties"] = {new if name == old else name: child for name, child in schema["properties"].items()}
    if _RULES in schema:
        schema[_RULES] = json.loads(json.dumps(schema[_RULES]).replace(old, new))


def _cluster_queue(schema: Schema) -> None:
    spec, status = _part(schema, "spec"), _part(schema, "status")
    _rename(spec, "cohortName", "cohort")
    spec["properties"]["admissionChecks"] = {
        "type": "array",
        "description": "Names of checks that hold for all flavors; admissionChecksStrategy in v1beta2.",
        "items": {"type": "string", "maxLength": 316},
        "maxItems": 64,
        "x-kubernetes-list-type": "set",
    }
    for field, before in (("whenCanBorrow", "Borrow"), ("whenCanPreempt", "Preempt")):
        _part(spec, "flavorFungibility", field)["enum"].append(before)
    for rule_ in spec["properties"]["flavorFungibility"].get(_RULES, ()):
        rule_["rule"] = rule_["rule"].replace("cohortName", "cohort")
    status["properties"]["pendingWorkloadsStatus"] = {
        "type": "object",
        "description": "Not written any more.",
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _local_queue(schema: Schema) -> None:
    status = _part(schema, "status")
    _rename(status, "flavorsUsage", "flavorUsage")
    status["properties"]["flavors"] = {
        "type": "array",
        "description": "Not written any more.",
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "maxItems": 64,
        "x-kubernetes-list-type": "atomic",
    }


def _admission_check(schema: Schema) -> None:
    _part(schema, "spec")["properties"]["retryDelayMinutes"] = {
        "type": "integer",
        "description": "Ignored.",
        "format": "int64",
    }


def _topology(schema: Schema) -> None:
    levels = _part(schema, "spec", "levels")
    kept = [each for each in levels[_RULES] if "oldSelf" not in each["rule"]]
    levels[_RULES] = [*kept, rule("self == oldSelf", "field is immutable")]


def _workload(schema: Schema) -> None:
    spec, status = _part(schema, "spec"), _part(schema, "status")
    properties = {name: child for name, child in spec["properties"].items() if name != "priorityClassRef"}
    properties["priorityClassSource"] = {
        "type": "string",
        "description": "Which kind of class gives the priority.",
        "enum": [WORKLOAD_CLASS, POD_CLASS, ""],
    }
    properties["priorityClassName"] = {**_NAME, "description": "Name of the class."}
    spec["properties"] = properties
    spec[_RULES] = [
        *(each for each in spec[_RULES] if "priorityClassRef" not in each["rule"]),
        rule(
            "!has(self.priorityClassName) || self.priorityClassName == '' || has(self.priority)",
            "priority should not be nil when priorityClassName is set",
        ),
    ]
    _part(spec, "podSets", "[]", "topologyRequest")["properties"].pop("podsetSliceRequiredTopologyConstraints")
    _rename(status, "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
    _part(status, "admission", "podSetAssignments", "[]")["properties"]["topologyAssignment"] = _assignment(schema)
    schema[_RULES] = [each for each in schema[_RULES] if "priorityClassRef" not in each["rule"]] + _class_rules(
        schema[_RULES]
    )


def _assignment(schema: Schema) -> Schema:
    compact = _part(schema, "status", "admission", "podSetAssignments", "[]", "topologyAssignment")
    value: Schema = {"type": "string", "maxLength": 63}
    domain: Schema = {
        "type": "object",
        "required": ["count", "values"],
        "properties": {
            "values": {
                "type": "array",
                "description": "The values of the levels.",
                "items": value,
                "minItems": 1,
                "maxItems": 16,
                "x-kubernetes-list-type": "atomic",
            },
            "count": {"type": "integer", "description": "Pods in the domain.", "format": "int32", "minimum": 1},
        },
    }
    return {
        "type": "object",
        "description": compact.get("description", ""),
        "required": ["domains", "levels"],
        "properties": {
            "levels": compact["properties"]["levels"],
            "domains": {
                "type": "array",
                "description": "In order.",
                "items": domain,
                "maxItems": 100_000,
                "x-kubernetes-list-type": "atomic",
            },
        },
    }


def _class_rules(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rules for priorityClassSource and priorityClassName that v1beta2 has for priorityClassRef."""
    (presence,) = (each["rule"] for each in rules if each["message"].startswith("priorityClassRef is immutable"))
    reserved = presence[: presence.index("(has(self.spec.priorityClassRef)")]
    source, name = "self.spec.priorityClassSource", "self.spec.priorityClassName"

    def same(field: str) -> str:
        old = field.replace("self", "oldSelf", 1)
        return f"has({field}) == has({old}) && (!has({field}) || {field} == {old})"

    pods = f"has({source}) && {source} == '{POD_CLASS}'"
    return [
        rule(f"{reserved}({same(source)})", "priorityClassSource is immutable while workload quota reserved"),
        rule(
            f"{reserved}(!({pods}) || ({same(name)}))",
            "priorityClassName is immutable while workload quota reserved",
        ),
    ]


_CHANGES: Final[dict[str, Callable[[Schema], None]]] = {
    "ClusterQueue": _cluster_queue,
    "LocalQueue": _local_queue,
    "AdmissionCheck": _admission_check,
    "Topology": _topology,
    "Workload": _workload,
}
