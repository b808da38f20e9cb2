"""Writes a start's additions into a list of patches in the job (WriteBack of api/job_kinds.py). Pure.

It serves kinds whose pod templates are in another object, or in an object that they wrap. A pod set's template is read with
the list's entries merged in, as the kind's own controller creates pods from it.

A partial pod template is merged by the kind's controller like a strategic merge patch, which replaces tolerations whole. So the
template's own tolerations and gates are written beside what a start adds to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admission.integrations.base import Job
from admission.integrations.declared.entries import FROM_AROUND, DeclaredPodSet
from admission.integrations.paths import Location, fields, value_at, with_value, without
from admission.integrations.podset import PodSetInfo
from api.job_kinds import WriteBack

Template = Mapping[str, Any]


def with_additions(job: Job, entry: DeclaredPodSet, rule: WriteBack, template: Template) -> Template:
    """Returns the template with the list's additions merged in; unreadable additions are ignored."""
    in_list = _template_in_list(job, entry, rule)
    if not in_list:
        return template
    parts = {part: dict(template.get(part) or {}) for part in ("metadata", "spec")}
    for part, key in (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector")):
        added = value_at(in_list, (part, key))
        if isinstance(added, Mapping) and added:
            parts[part][key] = {**(parts[part].get(key) or {}), **added}
    for key in ("tolerations", "schedulingGates"):
        added = value_at(in_list, ("spec", key))
        if isinstance(added, list) and added:
            present = list(parts["spec"].get(key) or ())
            parts["spec"][key] = [*present, *(one for one in added if one not in present)]
    return {**template, **parts}


def with_info(job: Job, entry: DeclaredPodSet, rule: WriteBack, info: PodSetInfo, started: Template, size: int) -> Job:
    """Returns the job with the info written into its list.

    `started` is the pod set's template with the info merged in; `size` is the number of pod sets that share the list.
    """
    at, entries = _list(job, entry, rule)
    if rule.entry is None:
        entries = entries if len(entries) == size else [{} for _ in range(size)]
        changed: Job = with_value(
            job, at, [_as_entry(info) if n == entry.position else one for n, one in enumerate(entries)]
        )
        return changed
    number = _position(entries, rule.entry)
    if number is None:
        entries, number = [*entries, dict(rule.entry)], len(entries)
    items_at = fields(rule.items or "")
    present = value_at(entries[number], items_at)
    item = with_value({"name": entry.name}, fields(rule.template or ""), _with_whole_lists(_template(info), started))
    others = [one for one in present or () if isinstance(one, Mapping) and one.get("name") != entry.name]
    entries = [with_value(one, items_at, [*others, item]) if n == number else one for n, one in enumerate(entries)]
    written: Job = with_value(job, at, entries)
    return written


def without_additions(job: Job, entry: DeclaredPodSet, rule: WriteBack) -> Job:
    """Returns the job without what a start wrote."""
    at, entries = _list(job, entry, rule)
    known = None if rule.entry is None else _position(entries, rule.entry)
    if rule.entry is not None and known is None:
        return job
    left = [] if known is None else [*entries[:known], *entries[known + 1 :]]
    changed: Job = with_value(job, at, left) if left else without(job, at)
    return changed


def _list(job: Job, entry: DeclaredPodSet, rule: WriteBack) -> tuple[Location, list[Any]]:
    path = rule.list
    at = (
        (*entry.around_at, *fields(path.removeprefix(FROM_AROUND)))
        if path.startswith(FROM_AROUND)
        else fields(path.removeprefix("$."))
    )
    items = value_at(job, at)
    return at, items if isinstance(items, list) else []


def _position(entries: list[Any], known_by: Mapping[str, str]) -> int | None:
    """Returns the position of the entry that contains the fields `known_by`, or None."""
    return next(
        (n for n, one in enumerate(entries) if isinstance(one, Mapping) and known_by.items() <= one.items()), None
    )


def _template_in_list(job: Job, entry: DeclaredPodSet, rule: WriteBack) -> Template | None:
    _, entries = _list(job, entry, rule)
    if rule.entry is None:
        template = entries[entry.position] if entry.position < len(entries) else None
        if not isinstance(template, Mapping):
            return None
        return {
            "metadata": {key: template.get(key) for key in ("labels", "annotations")},
            "spec": {key: template.get(key) for key in ("nodeSelector", "tolerations", "schedulingGates")},
        }
    number = _position(entries, rule.entry)
    items = None if number is None else value_at(entries[number], fields(rule.items or ""))
    item = next((one for one in items or () if isinstance(one, Mapping) and one.get("name") == entry.name), None)
    template = value_at(item, fields(rule.template or ""))
    return template if isinstance(template, Mapping) else None


def _with_whole_lists(added: dict[str, Any], started: Template) -> dict[str, Any]:
    """Returns the partial template with the whole lists of the started one where it adds to them."""
    spec = added.get("spec") or {}
    whole = {key: (started.get("spec") or {})[key] for key in ("tolerations", "schedulingGates") if key in spec}
    return {**added, "spec": {**spec, **whole}} if whole else added


def _as_entry(info: PodSetInfo) -> dict[str, Any]:
    template = _template(info)
    return {**template.get("metadata", {}), **template.get("spec", {})}


def _template(info: PodSetInfo) -> dict[str, Any]:
    """Returns the info's additions as a partial pod template."""
    gates = [{"name": name} for name in info.scheduling_gates]
    meta = {"labels": dict(info.labels), "annotations": dict(info.annotations)}
    spec = {
        "nodeSelector": dict(info.node_selector),
        "tolerations": [dict(one) for one in info.tolerations],
        "schedulingGates": gates,
    }
    parts: dict[str, dict[str, Any]] = {"metadata": meta, "spec": spec}
    return {
        part: kept for part, values in parts.items() if (kept := {key: value for key, value in values.items() if value})
    }
