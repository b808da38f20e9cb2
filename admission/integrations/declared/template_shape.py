"""Checks that a pod template in an object of a declared kind is one: CRDs often keep anything in its place. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from admission.integrations.paths import Location, value_at, written
from api.errors import InvalidObject
from api.pod.pod_requests import effective_requests
from api.pod.pods import pod_spec

_MAPS: Final = (("metadata",), ("metadata", "labels"), ("metadata", "annotations"), ("spec",), ("spec", "nodeSelector"))
_OF_TEXTS: Final = (*_MAPS[1:3], _MAPS[4])
_STEP: Final = re.compile(r"[^.\[\]]+")
_LISTS: Final = (("spec", "tolerations"), ("spec", "schedulingGates"))


def checked_template(template: Any, at: Location, job: str) -> Mapping[str, Any]:
    """Returns the template if what a start adds to can be read; `at` is its path in the job. Raises InvalidObject."""
    if not isinstance(template, Mapping):
        raise InvalidObject(written(at), template, "must be a pod template", job)
    for below, value, allowed in _faults(template):
        raise InvalidObject(written((*at, *below)), value, allowed, job)
    return template


def _faults(template: Mapping[str, Any]) -> Iterator[tuple[Location, Any, str]]:
    for below in _MAPS:
        value = value_at(template, below)
        if value is not None and not isinstance(value, Mapping):
            yield below, value, "must be a map"
    for below in _OF_TEXTS:
        for key, value in (value_at(template, below) or {}).items():
            if not isinstance(value, str):
                yield (*below, key), value, "must be a text"
    for below in _LISTS:
        value = value_at(template, below)
        if value is not None and not (isinstance(value, list) and all(isinstance(one, Mapping) for one in value)):
            yield below, value, "must be a list of maps"


def check_pod_spec(template: Mapping[str, Any], at: Location, job: str) -> None:
    """Raises InvalidObject if a field of the template's pod spec has the wrong type, or a request is no quantity."""
    try:
        effective_requests(pod_spec(template))
    except InvalidObject as bad:
        raise InvalidObject(written((*at, "spec")), bad.given, f"{bad.field} {bad.allowed}", job) from None
    except msgspec.ValidationError as bad:
        what, _, place = str(bad).partition(" - at `$")
        place = place.rstrip("`")
        steps = tuple(int(step) if step.isdigit() else step for step in _STEP.findall(place))
        value = value_at(template.get("spec"), steps)
        raise InvalidObject(f"{written((*at, 'spec'))}{place}", value, what.replace("`", "'"), job) from None
