"""Validates the pod templates of Workloads: field types and resources.

The CRD does not validate the template, so this module checks the fields that the controller reads: types, negative or
malformed amounts, and requests for the reserved resource `pods`. Pure; workloads.py calls it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from admission.webhook.rules.fields import OMIT, Errors, FieldPath, invalid
from admission.webhook.rules.formats import not_negative
from api.pod.pods import pod_spec
from api.text.quantity import PODS

Wire = Mapping[str, Any]


_FAULT: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<place>.*)`)?", re.DOTALL)


def template_faults(at: FieldPath, template: Wire) -> Errors:
    """Returns an error if a field has another type than in a pod's spec; `at` is the template's path."""
    try:
        pod_spec(template)
    except msgspec.ValidationError as bad:
        fault = _FAULT.fullmatch(str(bad))
        place, what = (fault["place"] or "", fault["what"]) if fault else ("", str(bad))
        return [invalid(FieldPath(f"{at.child('spec')}{place}"), OMIT, what.replace("`", "'"))]
    return []


def template_resources(spec: FieldPath, pod: Wire, non_negative: bool) -> Errors:
    """Returns the errors of requests, limits and overhead of the containers, init containers and the pod itself."""
    errors: Errors = []
    for field in ("initContainers", "containers"):
        for i, container in enumerate(pod.get(field) or ()):
            at = spec.child(field).item(i).child("resources")
            errors += _resources(at, container.get("resources") or {}, non_negative)
    errors += _resources(spec.child("resources"), pod.get("resources") or {}, non_negative)
    return [*errors, *_resources(spec, {"overhead": pod.get("overhead") or {}}, non_negative)]


def _resources(at: FieldPath, resources: Wire, non_negative: bool) -> Errors:
    errors: Errors = []
    for part in ("requests", "limits", "overhead"):
        for name, amount in (resources.get(part) or {}).items():
            path = at.child(part).key(name)
            if name == PODS:
                errors.append(invalid(path, name, "the key is reserved for internal kueue use"))
            elif non_negative:
                errors += not_negative(path, amount)
    return errors
