"""The resources that a pod template asks for: the amounts must be 0 or more, and `pods` is not theirs to ask.

Pure; called for the pod sets of Workloads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admission.webhook.fields import Errors, Path, invalid
from admission.webhook.formats import not_negative
from api.quantity import PODS

Wire = Mapping[str, Any]


def template_resources(spec: Path, pod: Wire, non_negative: bool) -> Errors:
    """The errors of requests and limits of init containers, containers and of the pod as a whole."""
    errors: Errors = []
    for field in ("initContainers", "containers"):
        for i, container in enumerate(pod.get(field) or ()):
            at = spec.child(field).item(i).child("resources")
            errors += _resources(at, container.get("resources") or {}, non_negative)
    return [*errors, *_resources(spec.child("resources"), pod.get("resources") or {}, non_negative)]


def _resources(at: Path, resources: Wire, non_negative: bool) -> Errors:
    errors: Errors = []
    for part in ("requests", "limits"):
        for name, amount in (resources.get(part) or {}).items():
            path = at.child(part).key(name)
            if name == PODS:
                errors.append(invalid(path, name, "the key is reserved for internal kueue use"))
            elif non_negative:
                errors += not_negative(path, amount)
    return errors
