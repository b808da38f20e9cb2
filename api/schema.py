"""Helpers with which the types declare their limits for the CRDs.

The API server enforces the limits. Decoding stays tolerant: objects from a watch are never refused, and the webhook reports
invalid objects with better messages. The type modules use it; `hack.crds` reads the result.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

Schema = dict[str, Any]


MANDATORY = "x-mandatory"
DEFAULT = "x-default"


def schema(doc: str = "", *, mandatory: bool = False, **keys: Any) -> Any:
    """Returns field metadata for the CRD. `doc` becomes the description.

    A Python default other than empty, 0 or None is the CRD's default too. `mandatory` and `default=` override the Python side,
    for example for a required `x: str = ""`, or `default=None` for no default. `keys` are schema keywords (maxLength, enum,
    ...); underscores in `x_kubernetes_*` become dashes.
    """
    extra = {name.replace("_", "-") if name.startswith("x_") else name: value for name, value in keys.items()}
    if mandatory:
        extra[MANDATORY] = True
    if "default" in extra:
        extra[DEFAULT] = extra.pop("default")
    return Field(description=doc or None, json_schema_extra=extra)


def rule(cel: str, message: str) -> Schema:
    """Returns one CEL rule with its error message."""
    return {"rule": cel, "message": message}


def rules(*each: Schema) -> Schema:
    """Returns CEL rules as schema keywords, for `model_config` of a type."""
    return {"x-kubernetes-validations": list(each)}


def map_by(*keys: str, **words: Any) -> Schema:
    """Returns schema keywords of a list with items identified by `keys`, so that several writers can own items."""
    return {"x_kubernetes_list_type": "map", "x_kubernetes_list_map_keys": list(keys), **words}


def atomic(**words: Any) -> Schema:
    """Returns schema keywords of a list that is replaced as a whole."""
    return {"x_kubernetes_list_type": "atomic", **words}


def unique(**words: Any) -> Schema:
    """Returns schema keywords of a list of distinct scalars."""
    return {"x_kubernetes_list_type": "set", **words}


DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
LABEL_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
)
QUANTITY = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$"

INT_OR_STRING: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": QUANTITY,
    "x-kubernetes-int-or-string": True,
}

Quantity = Annotated[str | int | float, WithJsonSchema(INT_OR_STRING)]
Int32 = Annotated[int, schema(format="int32")]
Name = Annotated[str, schema("Name of the object.", maxLength=253, pattern=DNS_SUBDOMAIN)]
PodSetName = Annotated[str, schema("Name of the pod set.", maxLength=63, pattern=DNS_LABEL)]
CheckName = Annotated[str, schema("Name of the AdmissionCheck.", minLength=1, maxLength=316)]
LevelKey = Annotated[str, schema("Label key of the level.", minLength=1, maxLength=316, pattern=LABEL_KEY)]
LevelName = Annotated[str, schema(minLength=1, maxLength=63)]
Time = Annotated[str, schema("RFC 3339 time.", format="date-time")]

# ---- types of other groups that stay plain dicts

STRING_MAP: Schema = {"type": "object", "additionalProperties": {"type": "string"}}

CONDITION: Schema = {
    "type": "object",
    "description": "One aspect of the object's state.",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "type": {"type": "string", "description": "The aspect.", "maxLength": 316},
        "status": {"type": "string", "description": "Whether it holds.", "enum": ["True", "False", "Unknown"]},
        "reason": {
            "type": "string",
            "description": "Why, in one word for programs.",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "message": {"type": "string", "description": "Why, in a sentence for people.", "maxLength": 32768},
        "lastTransitionTime": {
            "type": "string",
            "description": "When the status changed last.",
            "format": "date-time",
        },
        "observedGeneration": {
            "type": "integer",
            "description": "The metadata.generation that was judged.",
            "format": "int64",
            "minimum": 0,
        },
    },
}

LABEL_SELECTOR: Schema = {
    "type": "object",
    "x-kubernetes-map-type": "atomic",
    "properties": {
        "matchLabels": {**STRING_MAP, "description": "Labels that must have these values."},
        "matchExpressions": {
            "type": "array",
            "description": "Requirements that must all hold.",
            "x-kubernetes-list-type": "atomic",
            "items": {
                "type": "object",
                "required": ["key", "operator"],
                "properties": {
                    "key": {"type": "string", "description": "Label key."},
                    "operator": {"type": "string", "description": "In, NotIn, Exists or DoesNotExist."},
                    "values": {
                        "type": "array",
                        "description": "Values for In and NotIn; none for the other operators.",
                        "items": {"type": "string"},
                        "x-kubernetes-list-type": "atomic",
                    },
                },
            },
        },
    },
}

_SHORT: Schema = {"type": "string", "maxLength": 317}
_EFFECT: Schema = {"type": "string", "maxLength": 63}

TAINT: Schema = {
    "type": "object",
    "required": ["effect", "key"],
    "properties": {
        "key": {**_SHORT, "description": "Key of the taint."},
        "value": {**_SHORT, "description": "Value of the taint."},
        "effect": {**_EFFECT, "description": "NoSchedule, PreferNoSchedule or NoExecute."},
        "timeAdded": {"type": "string", "description": "When the taint was added.", "format": "date-time"},
    },
}

TOLERATION: Schema = {
    "type": "object",
    "properties": {
        "key": {**_SHORT, "description": "Key of the tolerated taints; empty with Exists: all."},
        "operator": {"type": "string", "description": "Equal or Exists.", "maxLength": 63},
        "value": {**_SHORT, "description": "Value of the tolerated taints, for Equal."},
        "effect": {**_EFFECT, "description": "Effect of the tolerated taints; empty: all."},
        "tolerationSeconds": {
            "type": "integer",
            "description": "For NoExecute: how many seconds the taint is tolerated.",
            "format": "int64",
        },
    },
}

# The pod template is not validated here, because the API server validates the Job's own. Of its metadata only labels and
# annotations are kept.
POD_TEMPLATE: Schema = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "metadata": {
            "type": "object",
            "description": "Labels and annotations of the pods; all else is pruned.",
            "properties": {
                "labels": {**STRING_MAP, "description": "Labels of the pods."},
                "annotations": {**STRING_MAP, "description": "Annotations of the pods."},
            },
        },
    },
}

TAINT_RULES = [
    rule(
        "self.all(t, t.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
        "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
    ),
]

TOLERATION_RULES = [
    rule(
        "self.all(t, has(t.key) && t.key != '' || has(t.operator) && t.operator == 'Exists')",
        "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
    ),
    rule(
        "self.all(t, !has(t.tolerationSeconds) || has(t.effect) && t.effect == 'NoExecute')",
        "effect must be 'NoExecute' when 'tolerationSeconds' is set",
    ),
    rule(
        "self.all(t, !has(t.operator) || t.operator in ['', 'Equal', 'Exists'])",
        "supported toleration values: 'Equal'(default), 'Exists'",
    ),
    rule(
        "self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value) || t.value == '')",
        "a value must be empty when 'operator' is 'Exists'",
    ),
    rule(
        "self.all(t, !has(t.effect) || t.effect in ['', 'NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
        "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
    ),
]

TAINTS = atomic(items=TAINT, maxItems=8, x_kubernetes_validations=TAINT_RULES)
TOLERATIONS = atomic(items=TOLERATION, maxItems=8, x_kubernetes_validations=TOLERATION_RULES)
CONDITIONS = schema("The object's state.", **map_by("type", items=CONDITION, maxItems=16))
IMMUTABLE = [rule("self == oldSelf", "field is immutable")]
