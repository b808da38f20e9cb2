"""Parses Sakkara's ConfigMaps: a topology tree of nodes, and a group of equal pods. Pure.

    topology (label key `sakkara.topology`)           group (label key `sakkara.group`)
      name            name of the topology              name         value of the pods' label `sakkara.group.name`
      level-names     JSON list, the node's level last  size         number of pods
      tree            nested JSON object of domains     priority     integer, 0 if absent
      resource-names  JSON list                         constraints  JSON by level (api/annotations/constraints.py)

Without `name` the ConfigMap's name applies. Other keys are ignored, such as results that Stowage writes. Nothing is raised:
each error is a value with the field, the given value and what is allowed. admission/controllers/watch/sakkara_trees.py matches
trees with nodes.

In the engine a level is a node label: a node of the tree gets a label for each level (`label_of_level`), which no real node
has. The lowest level is the hostname, so that node selectors use a label that nodes do have. If the last level is not called
`node`, an additional level of single hosts has its name, so that constraints can refer to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from api import names
from api.annotations import constraints
from api.annotations.requests import parse_int32
from api.meta import ObjectMeta, object_key
from api.schema import DNS_SUBDOMAIN
from api.text.untrusted_text import LONGEST_DATA, read_json, unique_entries
from api.topology import Topology, TopologyLevel, TopologySpec
from api.topology_request import PlacementConstraint

NAME, SIZE, PRIORITY, CONSTRAINTS = "name", "size", "priority", "constraints"
LEVELS, TREE, RESOURCES = "level-names", "tree", "resource-names"
GIVEN: Final = (NAME, SIZE, PRIORITY, CONSTRAINTS)
"""Keys of a group's data that its user writes."""

NODE: Final = "node"
TOPOLOGY_NAMESPACE: Final = "default"
"""Default namespace of topology ConfigMaps."""
MOST_LEVELS: Final = 15
LONGEST_TOPOLOGY: Final = 200
_DOMAIN: Final = "sakkara.topology"
_SUBDOMAIN: Final = re.compile(DNS_SUBDOMAIN)
_LEVEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN_FORM: Final = "must be a DNS subdomain of at most {most} characters"
_LEVELS_FORM: Final = (
    f"must be a JSON list of 1 to {MOST_LEVELS} different names, widest first, "
    "each of at most 63 letters, digits, '-', '_' and '.'"
)
_RESOURCES_FORM: Final = "must be a JSON list of different names of resources"
_SIZE_FORM: Final = "must be a whole number from 1 to 2147483647"
_PRIORITY_FORM: Final = "must be a whole number from -2147483648 to 2147483647"
_TOO_HIGH: Final = (
    "must be at most {highest}, the setting sakkara.highestPriority: for more leave it out and name a PriorityClass in the "
    "pods, which a ResourceQuota can guard"
)
_INT32_MAX: Final = 2**31 - 1
HIGHEST_PRIORITY: Final = 1000
"""Default for the highest priority that a group's ConfigMap may set, which no RBAC rule limits otherwise."""


class MapMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The read fields of a ConfigMap's metadata."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class ConfigMap(msgspec.Struct, frozen=True):
    """A decoded ConfigMap."""

    metadata: MapMeta
    data: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return object_key(self.metadata.namespace, self.metadata.name)


@dataclass(frozen=True, slots=True)
class InvalidField:
    """An error: the field from the top of the object, the given value, and what is allowed."""

    field: str
    given: Any
    allowed: str

    def __str__(self) -> str:
        return f"{self.field}: {self.given!r}: {self.allowed}"


@dataclass(frozen=True, slots=True)
class SakkaraGroup:
    """A group of equal pods. Levels without a constraint pack; without any constraint the node level has one that packs.

    `own_priority` means that the ConfigMap sets the priority; otherwise the pods' PriorityClass applies.
    """

    name: str
    size: int
    priority: int = 0
    constraints: tuple[PlacementConstraint, ...] = (PlacementConstraint(level=NODE),)
    own_priority: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class SakkaraTopology:
    """A topology tree."""

    name: str
    levels: tuple[str, ...]
    """Widest first, the node's last."""
    paths: Mapping[str, tuple[str, ...]]
    """The domains of each node, widest first."""
    resources: tuple[str, ...] = ("cpu", "memory")

    @property
    def topology(self) -> Topology:
        """The tree as a Topology: the labels of its levels, the hostname last."""
        keys = [*(label_of_level(self.name, level) for level in self._labelled), names.HOSTNAME_LABEL]
        spec = TopologySpec(levels=tuple(TopologyLevel(node_label=key) for key in keys))
        return Topology(metadata=ObjectMeta(name=self.name), spec=spec)

    def labels_of(self, node: str) -> dict[str, str]:
        """Returns the node's labels for the levels; empty if the tree does not have the node."""
        path = self.paths.get(node)
        if path is None:
            return {}
        units = zip(self._labelled, (*path, node), strict=False)
        return {label_of_level(self.name, level): unit for level, unit in units}

    @property
    def _labelled(self) -> tuple[str, ...]:
        """The levels that get a label of their own: all but `node`, which is the hostname."""
        return self.levels[:-1] if self.levels[-1] == NODE else self.levels


@dataclass(frozen=True, slots=True)
class GroupRead:
    """A parsed group, or the errors."""

    group: SakkaraGroup | None = None
    faults: tuple[InvalidField, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """The group that a ConfigMap describes."""

    name: str
    """The ConfigMap's."""
    uid: str
    """The ConfigMap's."""
    read: GroupRead


@dataclass(frozen=True, slots=True)
class TopologyRead:
    """A parsed topology, or the errors."""

    topology: SakkaraTopology | None = None
    faults: tuple[InvalidField, ...] = ()


def label_of_level(topology: str, level: str) -> str:
    """Returns the node label of a tree's level; its last part is the level's name."""
    return f"{topology}.{_DOMAIN}/{level}"


# ---- groups


def group_name(name: str, data: Mapping[str, str]) -> str:
    """Returns the name by which pods refer to the group in the ConfigMap `name`."""
    return data.get(NAME, name)


def read_group(name: str, data: Mapping[str, str], highest: int = _INT32_MAX) -> GroupRead:
    """Parses the group in the data of the ConfigMap `name`. `highest` is the highest priority that it may set."""
    called = group_name(name, data)
    faults = list(_subdomain(called, 253))
    size, priority = parse_int32(data.get(SIZE, "")), parse_int32(data.get(PRIORITY, "0"))
    if size is None or size < 1:
        faults.append(InvalidField(_at(SIZE), data.get(SIZE, ""), _SIZE_FORM))
        size = None
    if priority is None:
        faults.append(InvalidField(_at(PRIORITY), data[PRIORITY], _PRIORITY_FORM))
    elif priority > highest:
        faults.append(InvalidField(_at(PRIORITY), data[PRIORITY], _TOO_HIGH.format(highest=highest)))
    read = _constraints(data, size)
    faults += read.faults
    if faults or size is None or priority is None:
        return GroupRead(faults=tuple(faults))
    group = SakkaraGroup(called, size, priority, own_priority=PRIORITY in data)
    return GroupRead(replace(group, constraints=read.constraints) if read.constraints else group)


@dataclass(frozen=True, slots=True)
class _Constraints:
    constraints: tuple[PlacementConstraint, ...] = ()
    faults: list[InvalidField] = field(default_factory=list)


def _constraints(data: Mapping[str, str], size: int | None) -> _Constraints:
    text = data.get(CONSTRAINTS)
    if text is None or text.strip() in ("", "{}"):
        return _Constraints()
    reading = constraints.read(text)
    faults = [InvalidField(_at(CONSTRAINTS, *fault.path), fault.given, fault.allowed) for fault in reading.faults]
    for constraint in reading.constraints if size is not None else ():
        parts = constraint.partitions
        if parts is not None and parts > (size or 0):
            where = _at(CONSTRAINTS, constraint.level, "partitions")
            faults.append(InvalidField(where, parts, f"contradicts size {size}: must not be greater"))
    return _Constraints(reading.constraints, faults)


# ---- trees


def read_topology(name: str, data: Mapping[str, str]) -> TopologyRead:
    """Parses the tree in the data of the ConfigMap `name`."""
    called = data.get(NAME, name)
    levels, resources = _names(data, LEVELS), _names(data, RESOURCES, "[]")
    faults = [
        *_subdomain(called, LONGEST_TOPOLOGY),
        *_level_faults(data, levels),
        *([] if resources is not None and all(resources) else [_fault(data, RESOURCES, _RESOURCES_FORM)]),
    ]
    if faults or not levels or resources is None:
        return TopologyRead(faults=tuple(faults))
    tree = _json(data.get(TREE, ""))
    if isinstance(tree, _Bad):
        return TopologyRead(faults=(_fault(data, TREE, f"must be a JSON object of units by name: {tree.why}"),))
    paths: dict[str, tuple[str, ...]] = {}
    faults = list(_walk(tree, levels, (), paths))
    if not faults and not paths:
        faults.append(_fault(data, TREE, f"must name a {levels[-1]}"))
    if faults:
        return TopologyRead(faults=tuple(faults))
    if resources:
        return TopologyRead(SakkaraTopology(called, levels, paths, resources))
    return TopologyRead(SakkaraTopology(called, levels, paths))


def _level_faults(data: Mapping[str, str], levels: tuple[str, ...] | None) -> Iterator[InvalidField]:
    fine = levels is not None and 1 <= len(levels) <= MOST_LEVELS and all(map(_LEVEL.fullmatch, levels))
    if not fine:
        yield _fault(data, LEVELS, _LEVELS_FORM)


def _walk(
    unit: Any, levels: Sequence[str], above: tuple[str, ...], paths: dict[str, tuple[str, ...]]
) -> Iterator[InvalidField]:
    """Adds the paths of the nodes below a domain to `paths`; yields errors."""
    if not isinstance(unit, dict):
        yield InvalidField(_at(TREE, *above), unit, "must be an object of units by name, empty for a node")
        return
    if len(above) == len(levels):
        if unit:
            yield InvalidField(_at(TREE, *above), next(iter(unit)), f"lies below the last level, {levels[-1]}")
        elif above[-1] in paths:
            other = "/".join(paths[above[-1]]) or "the root"
            yield InvalidField(_at(TREE, *above), above[-1], f"is a {levels[-1]} of {other} already")
        else:
            paths[above[-1]] = above[:-1]
        return
    for name, inner in unit.items():
        if not name:
            yield InvalidField(_at(TREE, *above), name, f"must be the name of a {levels[len(above)]}")
        else:
            yield from _walk(inner, levels, (*above, name), paths)


# ---- the parts


@dataclass(frozen=True, slots=True)
class _Bad:
    why: str


def _json(text: str) -> Any:
    """Returns the parsed JSON, or the error."""
    try:
        return read_json(text, longest=LONGEST_DATA, pairs=unique_entries)
    except ValueError as bad:
        return _Bad(str(bad))


def _names(data: Mapping[str, str], key: str, default: str = "") -> tuple[str, ...] | None:
    listed = _json(data.get(key, default))
    if (
        not isinstance(listed, list)
        or not all(isinstance(each, str) for each in listed)
        or len(set(listed)) < len(listed)
    ):
        return None
    return tuple(listed)


def _subdomain(name: str, most: int) -> Iterator[InvalidField]:
    if len(name) > most or not _SUBDOMAIN.fullmatch(name):
        yield InvalidField(_at(NAME), name, _SUBDOMAIN_FORM.format(most=most))


def _fault(data: Mapping[str, str], key: str, allowed: str) -> InvalidField:
    return InvalidField(_at(key), data.get(key, ""), allowed)


def _at(key: str, *inner: str) -> str:
    return f"data.{key}" + "".join(f"[{part}]" for part in inner)
