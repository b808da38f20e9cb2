"""Reads the topology request of a pod set from annotations.

There are two generations. The current annotations are on a pod template (`podset-required-topology` and its siblings). The
older `require-topology` and `prefer-topology` are on a Job or JobSet, for each of its pod sets, or on a template; those of a
template take precedence over the job's. `prefer-topology: auto` means the lowest level of the flavor that placement tries.
That level is unknown here, so `auto` stays in `TopologyRequest.preferred` (and the Workload), and placement resolves it;
`is_auto` tests for it.

Three annotations of Stowage apply to both: `placement-constraints` (language in api/annotations/constraints.py),
and those of `REFINEMENTS`. On a job they apply to each pod set without its own, as far as that requires a level or requests a
topology.

Pure. The webhook calls it to decide whether a topology is requested, the job adapters to build pod sets. Levels and
combinations are validated in admission/webhook/rules/annotations.py; here only unreadable values are errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from api import names
from api.annotations import constraints
from api.errors import InvalidObject
from api.text import duration
from api.text.untrusted_text import bounded
from api.topology_request import SliceConstraint, TopologyRequest

MAX_LAYERS = 3
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
# Python refuses to convert thousands of digits, even zeros. Without leading zeros, 32 bits need at most ten.
_INTEGER = re.compile(r"[+-]?0{0,1000}[0-9]{1,10}")
_INT32 = range(-(2**31), 2**31)

# The main request of a pod set concerns all of its pods. Slices refine it and are independent of it.
FIRST_FORMS = {
    names.REQUIRE_TOPOLOGY: names.REQUIRED_TOPOLOGY,
    names.PREFER_TOPOLOGY: names.PREFERRED_TOPOLOGY,
}
_MAIN_REQUESTS = (
    names.REQUIRED_TOPOLOGY,
    names.PREFERRED_TOPOLOGY,
    names.UNCONSTRAINED_TOPOLOGY,
    *FIRST_FORMS,
)


class _Layer(msgspec.Struct):
    """One entry of the constraints annotation. Missing fields are empty, unknown ones are ignored."""

    topology: str = ""
    size: int = 0


_LAYERS = msgspec.json.Decoder(list[_Layer] | None)


def parse_bool(text: str) -> bool | None:
    """Parses a boolean annotation as Go's strconv.ParseBool does (1, t, T, TRUE, true, True, ...); None for other text."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


def parse_int32(text: str) -> int | None:
    """Parses a 32-bit integer in an annotation; None for other text."""
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if value in _INT32 else None


def parse_layers(text: str) -> tuple[SliceConstraint, ...]:
    """Returns the layers in the constraints annotation, outermost first. Raises ValueError for malformed JSON."""
    try:
        layers = _LAYERS.decode(bounded(text)) or ()
    except msgspec.MsgspecError as bad:
        raise ValueError(str(bad)) from None
    return tuple(SliceConstraint(topology=layer.topology, size=layer.size) for layer in layers)


def effective_annotations(template: Mapping[str, str] | None, job: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the template's annotations, with the job's requests for those it lacks, in the current form."""
    own, given = dict(template or {}), job or {}
    if not any(key in own for key in _MAIN_REQUESTS):
        own.update({key: given[key] for key in FIRST_FORMS if key in given})
    refining = (names.PLACEMENT_CONSTRAINTS, *(each.key for each in REFINEMENTS))
    own = {**{key: given[key] for key in refining if key in given}, **own}
    for first, current in FIRST_FORMS.items():
        if first in own:
            own.setdefault(current, own.pop(first))
    return own


def topology_request(
    annotations: Mapping[str, str] | None,
    *,
    job_annotations: Mapping[str, str] | None = None,
    pod_index_label: str | None = None,
    sub_group_index_label: str | None = None,
    sub_group_count: int | None = None,
) -> TopologyRequest | None:
    """Returns the request of a pod set, or None without a request and index label.

    `annotations` are the template's, `job_annotations` those of the Job or JobSet. The labels give the rank of a pod and of
    its replicated job; with one of them there is always a request, though not an explicit one (`TopologyRequest.explicit`).
    Raises InvalidObject for a malformed boolean, number or JSON array, or for a number of layers other than 1 to 3.
    """
    annotations = effective_annotations(annotations, job_annotations)
    labels = {
        "pod_index_label": pod_index_label,
        "sub_group_index_label": sub_group_index_label,
        "sub_group_count": sub_group_count,
    }
    known = {key: value for key, value in labels.items() if value is not None}
    main = _main_request(annotations)
    shaped = _constraints(annotations)
    if not main and not known and not shaped and not _has_slices(annotations):
        return None
    level = names.REQUIRED_TOPOLOGY in annotations
    refined = {**_slices(annotations), **shaped, **(_refined(annotations, of_level=True) if level else {})}
    more = _refined(annotations, of_level=False) if main or refined else {}
    return TopologyRequest(**main, **refined, **more, **known, **_group(annotations))


def asks_for_topology(annotations: Mapping[str, str] | None, job_annotations: Mapping[str, str] | None = None) -> bool:
    """Reports whether a topology is requested explicitly. Unreadable annotations request none: validation refuses them."""
    try:
        request = topology_request(annotations, job_annotations=job_annotations)
    except InvalidObject:
        return False
    return request is not None and request.explicit


def is_auto(request: TopologyRequest) -> bool:
    """Reports whether the request prefers the lowest level of the flavor."""
    return request.required is None and request.preferred == names.AUTO_LEVEL


def _main_request(annotations: Mapping[str, str]) -> dict[str, object]:
    if (level := annotations.get(names.REQUIRED_TOPOLOGY)) is not None:
        return {"required": level}
    if (level := annotations.get(names.PREFERRED_TOPOLOGY)) is not None:
        return {"preferred": level}
    if (text := annotations.get(names.UNCONSTRAINED_TOPOLOGY)) is None:
        return {}
    value = parse_bool(text)
    if value is None:
        raise _unreadable(names.UNCONSTRAINED_TOPOLOGY, text, "invalid syntax: must be true or false")
    return {"unconstrained": value}


def _has_slices(annotations: Mapping[str, str]) -> bool:
    return names.SLICE_CONSTRAINTS in annotations or (
        names.SLICE_REQUIRED_TOPOLOGY in annotations and names.SLICE_SIZE in annotations
    )


def _slices(annotations: Mapping[str, str]) -> dict[str, object]:
    if (text := annotations.get(names.SLICE_CONSTRAINTS)) is not None:
        return {"podset_slice_required_topology_constraints": _layers(text)}
    level, text = annotations.get(names.SLICE_REQUIRED_TOPOLOGY), annotations.get(names.SLICE_SIZE)
    if level is None or text is None:
        return {}
    size = parse_int32(text)
    if size is None:
        raise _unreadable(names.SLICE_SIZE, text, "invalid syntax: must be a whole number of 32 bits")
    return {"pod_set_slice_required_topology": level, "pod_set_slice_size": size}


def _layers(text: str) -> tuple[SliceConstraint, ...]:
    try:
        layers = parse_layers(text)
    except ValueError as bad:
        problem = f"failed to parse multi-layer topology constraints annotation: {bad}"
        raise _unreadable(names.SLICE_CONSTRAINTS, text, problem) from None
    if not 1 <= len(layers) <= MAX_LAYERS:
        problem = f"topology constraints must contain between 1 and {MAX_LAYERS} entries: got {len(layers)}"
        raise _unreadable(names.SLICE_CONSTRAINTS, text, problem)
    return layers


def _constraints(annotations: Mapping[str, str]) -> dict[str, object]:
    text = annotations.get(names.PLACEMENT_CONSTRAINTS)
    if text is None:
        return {}
    reading = constraints.read(text)
    for fault in reading.faults:
        place = "".join(f"[{part}]" for part in fault.path)
        raise InvalidObject(f"metadata.annotations[{names.PLACEMENT_CONSTRAINTS}]{place}", fault.given, fault.allowed)
    return {"constraints": reading.constraints}


def parse_period(text: str) -> int:
    """Parses a Go duration of at least one whole second. Raises ValueError with what is allowed."""
    try:
        seconds = duration.seconds(text)
    except ValueError:
        raise ValueError(duration.FORM) from None
    if not (seconds.is_integer() and 1 <= seconds < _INT32.stop):
        raise ValueError(f"{duration.FORM}, of whole seconds, at least 1s")
    return int(seconds)


def _whole(text: str, most: int) -> int:
    number = parse_int32(text)
    if number is None or not 1 <= number <= most:
        raise ValueError(f"must be a whole number from 1 to {most}")
    return number


class Refinement(NamedTuple):
    """An annotation that refines a topology request by a number."""

    key: str
    field: str
    """The field of the TopologyRequest."""
    noun: str
    parse: Callable[[str], int]
    """Raises ValueError with what is allowed."""
    of_level: bool = False
    """Whether it applies to a required level; otherwise to any topology request."""


REFINEMENTS = (
    Refinement(names.RELAX_TOPOLOGY_AFTER, "relax_after_seconds", "relaxation", parse_period, of_level=True),
    Refinement(names.SPARE_HOSTS, "spare_hosts", "spare hosts", partial(_whole, most=100)),
)


def _refined(annotations: Mapping[str, str], *, of_level: bool) -> dict[str, object]:
    refined: dict[str, object] = {}
    for each in REFINEMENTS:
        if each.of_level is of_level and (text := annotations.get(each.key)) is not None:
            try:
                refined[each.field] = each.parse(text)
            except ValueError as bad:
                raise _unreadable(each.key, text, str(bad)) from None
    return refined


def _group(annotations: Mapping[str, str]) -> dict[str, str]:
    """Returns the placement group's name, if the pod set requests a level."""
    name = annotations.get(names.PODSET_GROUP_NAME)
    grouped = names.REQUIRED_TOPOLOGY in annotations or names.PREFERRED_TOPOLOGY in annotations
    return {"pod_set_group_name": name} if name is not None and grouped else {}


def _unreadable(key: str, text: str, problem: str) -> InvalidObject:
    return InvalidObject(f"metadata.annotations[{key}]", text, problem)
