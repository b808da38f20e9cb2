"""Reads which gang a pod belongs to from any of the supported dialects into one form. Pure.

A gang is a set of pods of one namespace of which at least `minimum` start together. A label (coscheduling, the older group, a
PodGroup's name) or an annotation (Koordinator) names the gang; the minimum is set next to the name or in the PodGroup of that
name. Kueue's own pod groups (integrations/pods/podgroup.py) are gangs whose minimum is their total count and are not read here.
Sakkara's groups are described by ConfigMaps: such a pod states only the name, and `sakkara` is set.

The webhook reads a pod once, at its creation, rejects it for what `read` reports as wrong, and writes the common form
(`to_text`) into the annotation GANG_TERMS. No other component needs to know the dialects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeGuard

from api import names
from api.annotations.requests import parse_int32
from api.meta import object_key
from api.text.untrusted_text import read_json

LONGEST_NAME: Final = 253
MOST_GANGS: Final = 64
MOST_PODS: Final = 2**31 - 1
# Bounds the longest text that the webhook writes: one gang's fields and the names of all gangs in its gang group.
_LONGEST_TERMS: Final = 32 * 1024

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

LABELS, ANNOTATIONS = "labels", "annotations"


class MatchPolicy(StrEnum):
    """Which pods count toward the minimum as members end and new members come."""

    ONLY_WAITING = "only-waiting"
    WAITING_AND_RUNNING = "waiting-and-running"
    WAITING_RUNNING_SUCCEED = "waiting-running-succeed"
    ONCE_SATISFIED = "once-satisfied"


@dataclass(frozen=True, slots=True)
class PodGang:
    """A pod's membership in a gang."""

    name: str
    minimum: int | None = None
    """None if the PodGroup sets it."""
    policy: MatchPolicy = MatchPolicy.WAITING_AND_RUNNING
    groups: tuple[str, ...] = ()
    """The keys of all gangs that start together with this gang."""
    sakkara: bool = False
    """Whether it is a group of equal pods, exactly as many as its ConfigMap says."""

    def to_text(self) -> str:
        """Returns the text of the annotation GANG_TERMS."""
        terms: dict[str, Any] = {"name": self.name, "policy": self.policy.value}
        if self.minimum is not None:
            terms["minimum"] = self.minimum
        if self.groups:
            terms["groups"] = list(self.groups)
        if self.sakkara:
            terms["sakkara"] = True
        return json.dumps(terms, separators=(",", ":"), sort_keys=True)


@dataclass(frozen=True, slots=True)
class InvalidGangField:
    """A metadata field that does not describe a valid gang: part and key, the value given, what is allowed."""

    part: str
    key: str
    given: str
    allowed: str


@dataclass(frozen=True, slots=True)
class GangReading:
    """The result of reading a pod: a gang, or faults, or neither if the pod is in no gang."""

    gang: PodGang | None = None
    faults: tuple[InvalidGangField, ...] = ()


# Where each field may be set, in order of precedence; any other place must hold the same value.
_NAMES: Final = (
    (LABELS, names.SAKKARA_GROUP_NAME),
    (LABELS, names.GANG_NAME),
    (LABELS, names.SIGS_GANG_NAME),
    (LABELS, names.SIGS_GANG),
    (LABELS, names.GANG_LABEL),
    (ANNOTATIONS, names.KOORDINATOR_NAME),
)
_MINIMUMS: Final = (
    (LABELS, names.GANG_MINIMUM),
    (LABELS, names.SIGS_GANG_MINIMUM),
    (ANNOTATIONS, names.KOORDINATOR_MINIMUM),
)
_GROUPS: Final = (
    (ANNOTATIONS, names.SIGS_GANG_GROUPS),
    (ANNOTATIONS, names.KOORDINATOR_GROUPS),
)
# The value of a label cannot be a JSON list, so the groups are annotations in every dialect.
_POLICIES: Final = (
    (LABELS, names.SIGS_MATCH_POLICY),
    (ANNOTATIONS, names.SIGS_MATCH_POLICY),
    (ANNOTATIONS, names.KOORDINATOR_MATCH_POLICY),
)

Metadata = Mapping[str, Any]
_Field = tuple[tuple[str, str], str]

_NAME_RULE: Final = "a DNS subdomain: at most 253 of a-z, 0-9, '-' and '.', a letter or digit at both ends of each part"
_MINIMUM_RULE: Final = "a whole number from 1 to 2147483647"
_GROUPS_RULE: Final = 'a JSON list of gangs, such as ["default/gang-a","default/gang-b"]'


def names_gang(metadata: Metadata) -> bool:
    """Reports whether the pod has gang metadata in any dialect other than Kueue's."""
    return any(True for table in (_NAMES, _MINIMUMS, _GROUPS) for _ in _fields(metadata, table))


def read(namespace: str, metadata: Metadata) -> GangReading:
    """Reads the gang from a pod's labels and annotations."""
    gang_names = list(_fields(metadata, _NAMES))
    minimums = list(_fields(metadata, _MINIMUMS))
    if not gang_names:
        lonely = [*minimums, *_fields(metadata, _GROUPS), *_fields(metadata, _POLICIES)]
        return GangReading(
            None, tuple(_fault(each, f"only together with the name of a gang ({names.GANG_NAME})") for each in lonely)
        )
    name = gang_names[0][1]
    faults = [_fault(each, _NAME_RULE) for each in gang_names if not is_subdomain(each[1])]
    faults += _differences(gang_names)
    whole = (metadata.get(ANNOTATIONS) or {}).get(names.POD_GROUP_NAME) or (metadata.get(LABELS) or {}).get(
        names.POD_GROUP_NAME
    )
    if whole and whole != name:
        faults.append(_fault(gang_names[0], f"the name in {names.POD_GROUP_NAME}, {whole}: a pod is in one gang"))
    numbers = {each: parse_int32(each[1]) for each in minimums}
    bad = [each for each in minimums if (numbers[each] or 0) < 1]
    faults += [_fault(each, _MINIMUM_RULE) for each in bad] + ([] if bad else _differences(minimums))
    groups, wrong = _groups(object_key(namespace, name), _fields(metadata, _GROUPS))
    policies = list(_fields(metadata, _POLICIES))
    unknown = [each for each in policies if each[1] not in set(MatchPolicy)]
    faults += wrong + [_fault(each, f"one of {', '.join(MatchPolicy)}") for each in unknown]
    if faults:
        return GangReading(None, tuple(faults))
    policy = MatchPolicy(policies[0][1]) if policies else _default_policy(gang_names[0])
    sakkara = gang_names[0][0][1] == names.SAKKARA_GROUP_NAME
    return GangReading(PodGang(name, numbers[minimums[0]] if minimums else None, policy, groups, sakkara))


def groups_of(key: str, metadata: Metadata) -> tuple[tuple[str, ...], list[InvalidGangField]]:
    """Returns the gangs that start together with the gang `key` (`namespace/name`), read from its PodGroup's metadata."""
    return _groups(key, _fields(metadata, _GROUPS))


def faults_of_group(key: str, metadata: Metadata) -> list[InvalidGangField]:
    """Returns what is invalid in the gang groups and the match policy of a PodGroup's metadata."""
    fields = _fields(metadata, _POLICIES)
    unknown = [_fault(each, f"one of {', '.join(MatchPolicy)}") for each in fields if each[1] not in set(MatchPolicy)]
    return groups_of(key, metadata)[1] + unknown


def policy_of(metadata: Metadata) -> MatchPolicy | None:
    """Returns the match policy in a PodGroup's metadata; an invalid policy is ignored."""
    return next((MatchPolicy(text) for _, text in _fields(metadata, _POLICIES) if text in set(MatchPolicy)), None)


def from_text(text: str | None) -> PodGang | None:
    """Parses the output of `PodGang.to_text`; returns None for no text or a text that Stowage cannot have written."""
    return _from_text(text) if text and len(text) <= _LONGEST_TERMS else None


@lru_cache(maxsize=1024)  # all pods of a gang carry the same text
def _from_text(text: str) -> PodGang | None:
    try:
        terms = read_json(text)
        name, minimum, groups = terms["name"], terms.get("minimum"), terms.get("groups", [])
        good = isinstance(name, str) and is_subdomain(name) and _are_keys(groups) and len(groups) <= MOST_GANGS + 1
        if not good or not (minimum is None or (type(minimum) is int and 1 <= minimum <= MOST_PODS)):
            return None
        return PodGang(name, minimum, MatchPolicy(terms["policy"]), tuple(groups), terms.get("sakkara") is True)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def is_subdomain(text: str) -> bool:
    """Reports whether the text is a valid DNS subdomain, and so can name an object."""
    return len(text) <= LONGEST_NAME and _SUBDOMAIN.fullmatch(text) is not None


def field_of(metadata: Metadata, field: str) -> tuple[str, str]:
    """Returns part and key of the metadata that set a PodGang field (`name`, `minimum`, `groups` or `policy`).

    If the field is not set, returns where it could be set in the dialect of the gang's name.
    """
    name = next(((part, key) for (part, key), _ in _fields(metadata, _NAMES)), _NAMES[1])
    table = {"name": _NAMES, "minimum": _MINIMUMS, "groups": _GROUPS, "policy": _POLICIES}[field]
    first = next(((part, key) for (part, key), _ in _fields(metadata, table)), None)
    return first or next((each for each in table if each[0] == name[0]), table[0])


def changed_fields(before: Metadata, after: Metadata) -> list[tuple[str, str, str]]:
    """Returns part, key and new value (empty if removed) of the fields of gangs in which two metadata differ."""
    places = dict.fromkeys(place for table in (_NAMES, _MINIMUMS, _GROUPS, _POLICIES) for place in table)
    pairs = ((place, dict(_fields(before, (place,))), dict(_fields(after, (place,)))) for place in places)
    return [(*place, new.get(place, "")) for place, old, new in pairs if old != new]


def _fields(metadata: Metadata, table: Iterable[tuple[str, str]]) -> Iterable[_Field]:
    for part, key in table:
        text = (metadata.get(part) or {}).get(key)
        if text is not None:
            yield (part, key), str(text)


def _fault(field: _Field, allowed: str) -> InvalidGangField:
    (part, key), given = field
    return InvalidGangField(part, key, given, allowed)


def _differences(fields: list[_Field]) -> list[InvalidGangField]:
    return [
        _fault(each, f"the same as {fields[0][0][1]}, {fields[0][1]}") for each in fields[1:] if each[1] != fields[0][1]
    ]


def _default_policy(name: _Field) -> MatchPolicy:
    return MatchPolicy.ONCE_SATISFIED if name[0][0] == ANNOTATIONS else MatchPolicy.WAITING_AND_RUNNING


def _groups(own: str, fields: Iterable[_Field]) -> tuple[tuple[str, ...], list[InvalidGangField]]:
    """Returns the sorted gang group, including the gang itself; empty if the gang would be its only member."""
    gangs: tuple[str, ...] = ()
    faults: list[InvalidGangField] = []
    for each in fields:
        listed = _read_list(each[1])
        if listed is None:
            faults.append(_fault(each, _GROUPS_RULE))
        elif len(listed) > MOST_GANGS:
            faults.append(_fault(each, f"at most {MOST_GANGS} gangs"))
        else:
            gangs = gangs or tuple(sorted({own, *listed}))
    return (gangs if len(gangs) > 1 else ()), faults


def _read_list(text: str) -> list[str] | None:
    try:
        listed = read_json(text)
    except ValueError:
        return None
    return listed if _are_keys(listed) else None


def _are_keys(listed: Any) -> TypeGuard[list[str]]:
    return isinstance(listed, list) and all(isinstance(key, str) and _is_key(key) for key in listed)


def _is_key(text: str) -> bool:
    namespace, slash, name = text.partition("/")
    return bool(slash) and _NAMESPACE.fullmatch(namespace) is not None and is_subdomain(name)
