"""Keeps what a start wrote into a running job when somebody applies the job's manifest again. Pure; reviewed_jobs.py calls it.

Argo CD and Flux apply a manifest by force, and kubectl replaces lists of custom resources whole. A node selector or a list of
tolerations of the manifest then takes the place of the admitted one, and a pod that is created later runs on nodes of another
flavor; Job and JobSet refuse the whole update, because their templates are immutable while they run. So an update that leaves
a job running leaves in its pod templates what admission added there, as if the manifest had it too.

Where the API server would refuse any other change of the field, or the kind's start is not written into pod templates, the
field stays as it is if the new one lacks parts of it and adds none: defaults are missing in a manifest too. Elsewhere only
labels, annotations, node selectors, tolerations and scheduling gates are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.declared.entries import FROM_AROUND
from admission.integrations.paths import Location, fields, value_at
from admission.integrations.registry import KINDS
from admission.webhook.rules.jobs import Job, ReviewedKind, queue_name
from api.errors import InvalidObject
from api.kube.resources import JOBS, JOBSETS, Resource

_SETS: Final = ("tolerations", "schedulingGates")
"""Lists that a start adds to, wherever they are."""
_MAPS: Final = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector"))


def keep(new: Job, old: Job, kind: ReviewedKind, resource: Resource) -> None:
    """Puts back, in place, what an update of a running job takes from its pod templates."""
    if kind.is_suspended(old) or kind.is_suspended(new) or not queue_name(old):
        return
    for place, key in _whole_fields(old, resource).items():
        given, stored = value_at(new, place), value_at(old, place)
        if given != stored and stored is not None and is_part_of(given, stored, key):
            _put(new, place, stored)
    before = {template.pod_set: template.body for template in kind.templates(old)}
    for template in kind.templates(new):
        if (stored := before.get(template.pod_set)) is not None:
            _keep_additions(template.body, stored)


def _whole_fields(job: Job, resource: Resource) -> dict[Location, str]:
    """Returns the fields that stay as they are, with the key that says how `is_part_of` compares them."""
    if resource == JOBS:
        return {("spec", "template"): ""}
    if resource == JOBSETS:
        return {("spec", "replicatedJobs"): ""}
    adapter = KINDS.get((resource.group, resource.kind))
    if not isinstance(adapter, DeclaredJob):
        return {}
    back = adapter.spec.write_back
    paths: dict[Location, str] = (
        {} if back is None or back.list.startswith(FROM_AROUND) else {fields(back.list): _SETS[0]}
    )
    try:
        of_functions = [entry.at[:2] for entry in adapter.entries(job) if entry.rule.function]
    except InvalidObject:
        of_functions = []
    return {**dict.fromkeys(of_functions, ""), **paths}


def is_part_of(part: Any, whole: Any, key: str = "") -> bool:
    """Reports whether `part` has nothing that `whole` lacks. `key` is the field of both."""
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        return all(name in whole and is_part_of(value, whole[name], name) for name, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        if key in _SETS:
            return all(each in whole for each in part)
        return len(part) == len(whole) and all(is_part_of(one, other) for one, other in zip(part, whole, strict=True))
    return bool(part == whole) or (part in (None, {}, []) and isinstance(whole, Mapping | list))


def _keep_additions(template: dict[str, Any], stored: Mapping[str, Any]) -> None:
    for part, key in _MAPS:
        lacking = _lacking((stored.get(part) or {}).get(key), (template.get(part) or {}).get(key))
        if lacking:
            _put(template, (part, key), {**((template.get(part) or {}).get(key) or {}), **lacking})
    for key in _SETS:
        present, had = (template.get("spec") or {}).get(key) or [], (stored.get("spec") or {}).get(key) or []
        if any(each not in present for each in had):
            _put(template, ("spec", key), [*had, *(each for each in present if each not in had)])


def _lacking(stored: Mapping[str, Any] | None, wanted: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (stored or {}).items() if key not in (wanted or {})}


def _put(obj: dict[str, Any], place: Iterable[str | int], value: Any) -> None:
    """Writes the value at the place. Ignores a place that does not exist: validation rejects that object."""
    *above, last = place
    at: Any = obj
    for step in above:
        if isinstance(at, dict) and at.get(step) is None:
            at[step] = {}
        try:
            at = at[step]
        except (LookupError, TypeError):
            return
    if isinstance(at, dict):
        at[last] = value
