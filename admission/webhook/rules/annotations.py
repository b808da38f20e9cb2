"""Validates the topology annotations of pod templates, and the older annotations on jobs.

Two rules go beyond Kueue's, for the older annotations (`require-topology`, `prefer-topology`) on a job or a template: an
object may not have both, and a level must be one of the queue's flavors, once those are known. For the current annotations
(`podset-required-topology` and its siblings) placement checks the level, as in Kueue: the workload waits with a reason.

Pure. api/annotations/requests.py parses the annotations; the job kinds give the pod counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from admission.webhook.rules.fields import OMIT, Errors, FieldError, FieldPath, duplicate, forbidden, invalid, required
from admission.webhook.rules.formats import label_name
from admission.webhook.rules.template import Annotations, Template
from api import names
from api.annotations.requests import (
    FIRST_FORMS,
    MAX_LAYERS,
    effective_annotations,
    parse_bool,
    parse_int32,
    parse_layers,
)
from api.topology_request import SliceConstraint

_CURRENT: Final = (names.REQUIRED_TOPOLOGY, names.PREFERRED_TOPOLOGY, names.UNCONSTRAINED_TOPOLOGY)
_FIRST: Final = tuple(FIRST_FORMS)
_LAYERS_FORM: Final = f"topology constraints must contain between 1 and {MAX_LAYERS} entries"
_AT_LEAST_ONE: Final = "must be greater than or equal to 1"


@dataclass(frozen=True, slots=True)
class QueueLevels:
    """The levels of a ClusterQueue's flavors, widest first, which an older annotation may name."""

    cluster_queue: str
    levels: tuple[str, ...]

    def fault(self, level: str) -> str | None:
        """Returns why the queue lacks this level, or None if it has it."""
        if level in self.levels:
            return None
        if not self.levels:
            return f'none of the flavors of ClusterQueue "{self.cluster_queue}" has a topology'
        return f"must be one of {self}"

    def __str__(self) -> str:
        return f'the levels of ClusterQueue "{self.cluster_queue}": {", ".join(self.levels)}'


def first_forms(metadata: FieldPath, annotations: Annotations, levels: QueueLevels | None) -> Errors:
    """Returns the errors of `require-topology` and `prefer-topology` on one object (a job or a template)."""
    at = metadata.child("annotations")
    errors = _one_of(at, _FIRST) if all(key in annotations for key in _FIRST) else []
    for key in _FIRST:
        if (level := annotations.get(key)) is not None:
            errors += _first_form(at.key(key), key, level, levels)
    return errors


def _first_form(at: FieldPath, key: str, level: str, levels: QueueLevels | None) -> Errors:
    if level == names.AUTO_LEVEL:
        return [] if key == names.PREFER_TOPOLOGY else [invalid(at, level, _no_auto(levels))]
    if errors := label_name(at, level):
        return errors
    fault = levels.fault(level) if levels else None
    return [invalid(at, level, fault)] if fault else []


def _no_auto(of_queue: QueueLevels | None) -> str:
    levels = f" ({of_queue})" if of_queue and of_queue.levels else ""
    return f"must name a level{levels}: '{names.AUTO_LEVEL}' is only for '{names.PREFER_TOPOLOGY}'"


def template_annotations(
    metadata: FieldPath,
    annotations: Annotations,
    job: Annotations | None = None,
    *,
    multi_layer: bool = True,
    exact: bool = False,
) -> Errors:
    """Returns the errors of a template's `annotations`. `metadata` is the path of its metadata, `job` the job's own.

    With `exact` (the profile that solves a placement group jointly), pod sets of a group may have slices.
    """
    at = metadata.child("annotations")
    effective = effective_annotations(annotations, job)
    return [
        *_main(at, annotations),
        *_group(at, annotations, effective, exact=exact),
        *_unconstrained(at, annotations),
        *_slice(at, annotations),
        *_constraints(at, annotations, multi_layer),
    ]


def _main(at: FieldPath, annotations: Annotations) -> Errors:
    first = [key for key in _FIRST if key in annotations]
    errors = _one_of(at, (*_CURRENT, *first)) if _disagree(annotations) else []
    for key in _CURRENT[:2]:
        if key in annotations:
            errors += label_name(at.key(key), annotations[key])
    return errors


def _disagree(template: Annotations) -> bool:
    """Reports whether a template has conflicting requests.

    A template may have the same request in both forms: the controller writes the current form when it starts the job.
    `first_forms` reports two older annotations on one object.
    """
    if not any(key in template for key in _CURRENT):
        return False
    annotations = effective_annotations(template)
    return sum(key in annotations for key in _CURRENT) > 1 or any(
        template[first] != annotations[current] for first, current in FIRST_FORMS.items() if first in template
    )


def _one_of(at: FieldPath, keys: Sequence[str]) -> Errors:
    named = ", ".join(f'"{key}"' for key in keys)
    return [invalid(at, OMIT, f"must not contain more than one topology annotation: [{named}]")]


def _unconstrained(at: FieldPath, annotations: Annotations) -> Errors:
    value = annotations.get(names.UNCONSTRAINED_TOPOLOGY)
    if value is None or parse_bool(value) is not None:
        return []
    return [invalid(at.key(names.UNCONSTRAINED_TOPOLOGY), value, "must be a boolean value")]


def _group(at: FieldPath, annotations: Annotations, effective: Annotations, *, exact: bool) -> Errors:
    name = annotations.get(names.PODSET_GROUP_NAME)
    if name is None:
        return []
    path = at.key(names.PODSET_GROUP_NAME)
    errors = [invalid(path, name, "must not be a number")] if name.isascii() and name.isdigit() else []
    if not exact:
        slices = (names.SLICE_SIZE, names.SLICE_REQUIRED_TOPOLOGY, names.SLICE_CONSTRAINTS)
        errors += _not_together_with(path, annotations, *slices)
    if names.PREFERRED_TOPOLOGY not in effective and names.REQUIRED_TOPOLOGY not in effective:
        neither = (
            f"may not be set when neither '{names.PREFERRED_TOPOLOGY}' nor '{names.REQUIRED_TOPOLOGY}' is specified"
        )
        errors.append(forbidden(path, neither))
    return errors


def _not_together_with(path: FieldPath, annotations: Annotations, *others: str) -> Errors:
    return [forbidden(path, f"may not be set when '{other}' is specified") for other in others if other in annotations]


def _slice(at: FieldPath, annotations: Annotations) -> Errors:
    level, size = annotations.get(names.SLICE_REQUIRED_TOPOLOGY), annotations.get(names.SLICE_SIZE)
    errors = label_name(at.key(names.SLICE_REQUIRED_TOPOLOGY), level) if level is not None else []
    path = at.key(names.SLICE_SIZE)
    if size is None:
        missing = f"must be set when '{names.SLICE_REQUIRED_TOPOLOGY}' is specified"
        return [*errors, required(path, missing)] if level is not None else errors
    if level is None:
        return [*errors, forbidden(path, f"may not be set when '{names.SLICE_REQUIRED_TOPOLOGY}' is not specified")]
    number = parse_int32(size)
    if number is None:
        return [*errors, invalid(path, size, "must be a numeric value")]
    return [*errors, invalid(path, size, _AT_LEAST_ONE)] if number < 1 else errors


def _constraints(at: FieldPath, annotations: Annotations, multi_layer: bool) -> Errors:
    text = annotations.get(names.SLICE_CONSTRAINTS)
    if text is None:
        return []
    path = at.key(names.SLICE_CONSTRAINTS)
    if not multi_layer:
        return [forbidden(path, "the TASMultiLayerTopology feature gate must be enabled to use this annotation")]
    errors = _not_together_with(path, annotations, names.SLICE_REQUIRED_TOPOLOGY, names.SLICE_SIZE)
    try:
        layers = parse_layers(text)
    except ValueError as bad:
        return [*errors, invalid(path, text, f"must be a valid JSON array: {bad}")]
    if not 1 <= len(layers) <= MAX_LAYERS:
        return [*errors, invalid(path, text, _LAYERS_FORM)]
    return [*errors, *_layers(path, layers)]


def _layers(path: FieldPath, layers: Sequence[SliceConstraint]) -> Errors:
    errors: Errors = []
    first_at: dict[str, int] = {}
    for i, layer in enumerate(layers):
        at = path.item(i)
        errors += label_name(at.child("topology"), layer.topology)
        if layer.topology in first_at:
            twice = f"{layer.topology} (also at index {first_at[layer.topology]})"
            errors.append(duplicate(at.child("topology"), twice))
        first_at.setdefault(layer.topology, i)
        if layer.size < 1:
            errors.append(invalid(at.child("size"), layer.size, _AT_LEAST_ONE))
        elif i and layers[i - 1].size > 0 and layers[i - 1].size % layer.size:
            outer = layers[i - 1].size
            errors.append(invalid(at.child("size"), layer.size, f"must evenly divide the parent layer size {outer}"))
    return errors


def slice_bound(metadata: FieldPath, annotations: Annotations, count: int) -> Errors:
    """Returns an error if a slice (or the outermost layer) exceeds the pod set's count; ignores unreadable sizes."""
    at, detail = metadata.child("annotations"), f"must not be greater than pod set count {count}"
    text = annotations.get(names.SLICE_CONSTRAINTS)
    if text is not None:
        try:
            layers = parse_layers(text)
        except ValueError:
            return []
        outermost = layers[0].size if layers else 0
        return [invalid(at.key(names.SLICE_CONSTRAINTS), outermost, detail)] if outermost > count else []
    size = annotations.get(names.SLICE_SIZE)
    number = parse_int32(size) if size is not None else None
    return [invalid(at.key(names.SLICE_SIZE), size, detail)] if number is not None and number > count else []


def groups(templates: Sequence[Template], job: Annotations | None = None, *, exact: bool = False) -> Errors:
    """Returns the errors of placement groups: two pod sets, one of them a single pod, both with the same request.

    With `exact` (the profile that solves a group jointly), a group may have any number of pod sets of any size.
    """
    members: dict[str, list[Template]] = {}
    for template in templates:
        if (name := template.annotations.get(names.PODSET_GROUP_NAME)) is not None:
            members.setdefault(name, []).append(template)
    judge = _any_group if exact else _pair
    return [error for name, group in members.items() for error in judge(name, group, job)]


def _any_group(name: str, group: Sequence[Template], job: Annotations | None) -> Errors:
    if len(group) < 2:
        size = f"can only define groups of at least 2 pod sets, got: {len(group)} pod set(s)"
        return [invalid(_group_path(one), name, size) for one in group]
    first, *others = group
    differ = [other for other in others if _levels(first, job) != _levels(other, job)]
    return [
        error for other in differ for error in (_inconsistent(name, first, other), _inconsistent(name, other, first))
    ]


def _pair(name: str, group: Sequence[Template], job: Annotations | None) -> Errors:
    if len(group) != 2:
        size = f"can only define groups of exactly 2 pod sets, got: {len(group)} pod set(s)"
        return [invalid(_group_path(one), name, size) for one in group]
    first, second = group
    errors: Errors = []
    if first.count != 1 and second.count != 1:
        counts = (
            "can only define groups where at least one pod set has only 1 replica, got: "
            f"{first.count} replica(s) and {second.count} replica(s) in the group"
        )
        errors += [invalid(_group_path(one), name, counts) for one in group]
    if _levels(first, job) != _levels(second, job):
        errors += [_inconsistent(name, first, second), _inconsistent(name, second, first)]
    return errors


def _levels(template: Template, job: Annotations | None) -> tuple[str | None, ...]:
    annotations = effective_annotations(template.annotations, job)
    return tuple(
        annotations.get(key) for key in (names.REQUIRED_TOPOLOGY, names.PREFERRED_TOPOLOGY, names.RELAX_TOPOLOGY_AFTER)
    )


def _group_path(template: Template) -> FieldPath:
    return template.metadata.child("annotations").key(names.PODSET_GROUP_NAME)


def _inconsistent(name: str, here: Template, there: Template) -> FieldError:
    detail = (
        f"must specify '{names.REQUIRED_TOPOLOGY}' or '{names.PREFERRED_TOPOLOGY}' topology consistent with "
        f"'{there.metadata.child('annotations')}' in group '{name}'"
    )
    return invalid(here.metadata.child("annotations"), OMIT, detail)
