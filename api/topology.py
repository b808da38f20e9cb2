"""Topology and ResourceFlavor: the levels of the datacenter tree, and the nodes of a flavor.

A flavor names a Topology object, or (older) has the levels inline. The same limits and rules apply to both.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from api.meta import KubeModel, KubeObject, Labels
from api.names import API_VERSION, HOSTNAME_LABEL
from api.schema import TAINTS, TOLERATIONS, LevelKey, Name, Schema, atomic, rule, rules, schema


def _level_rules(key: str) -> list[Schema]:
    """Returns CEL rules for a list of levels. `key` selects the label key of an item: `.nodeLabel`, or empty for strings."""
    last = f"[size(self) - 1]{key} == '{HOSTNAME_LABEL}'"
    return [
        rule(f"self.all(a, self.exists_one(b, b{key} == a{key}))", "must be unique"),
        rule(
            f"self.all(l, l{key} != '{HOSTNAME_LABEL}') || self{last}",
            f"the {HOSTNAME_LABEL} label can only be used at the lowest level of topology",
        ),
        rule(
            f"self == oldSelf || (self{last} && oldSelf{last.replace('self', 'oldSelf')})",
            f"levels are mutable only when {HOSTNAME_LABEL} is the lowest level both before and after the change",
        ),
    ]


def _levels(key: str) -> Any:
    words = atomic(minItems=1, maxItems=16, x_kubernetes_validations=_level_rules(key))
    return schema("Label keys of the levels, widest first.", mandatory=True, **words)


class TopologyLevel(KubeModel):
    """A level: the node label whose values name its domains."""

    node_label: LevelKey


class TopologySpec(KubeModel):
    """The levels, widest first."""

    levels: Annotated[tuple[TopologyLevel, ...], _levels(".nodeLabel")] = ()


class Topology(KubeObject):
    """A cluster-scoped list of levels that flavors refer to."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "Topology"

    spec: Annotated[TopologySpec, schema(mandatory=True)] = Field(default_factory=TopologySpec)

    @property
    def levels(self) -> tuple[str, ...]:
        """The label keys, widest first."""
        return tuple(level.node_label for level in self.spec.levels)


class InlineTopology(KubeModel):
    """Levels written into the flavor itself (the older form)."""

    levels: Annotated[tuple[LevelKey, ...], _levels("")] = ()


class ResourceFlavorSpec(KubeModel):
    """Nodes of the flavor, their taints and tolerations, and their topology."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.topologyName) && !has(self.topology) || has(self.nodeLabels) && size(self.nodeLabels) > 0",
                "at least one nodeLabel is required when topology is set",
            ),
            rule(
                "!has(self.topologyName) || !has(self.topology)",
                "topology and topologyName are mutually exclusive",
            ),
            rule(
                "!has(oldSelf.topologyName) || has(self.topologyName) && self.topologyName == oldSelf.topologyName",
                "topologyName is immutable when topologyName is set",
            ),
        )
    )

    node_labels: Annotated[
        Labels,
        schema("Labels of the nodes of this flavor; they join the pods' node selector.", maxProperties=8),
    ] = Field(default_factory=dict)
    node_taints: Annotated[
        tuple[dict[str, Any], ...],
        schema("Taints that the nodes have; a workload must tolerate them to get this flavor.", **TAINTS),
    ] = ()
    tolerations: Annotated[
        tuple[dict[str, Any], ...], schema("Tolerations that are added to pods of this flavor.", **TOLERATIONS)
    ] = ()
    topology_name: Annotated[Name | None, schema("The Topology object with the flavor's levels.")] = None
    topology: Annotated[InlineTopology | None, schema("The levels inline; excludes topologyName.")] = None


class ResourceFlavor(KubeObject):
    """A cluster-scoped kind of nodes for which quota is given."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "ResourceFlavor"

    spec: ResourceFlavorSpec = Field(default_factory=ResourceFlavorSpec)

    @property
    def topology_aware(self) -> bool:
        """Reports whether the flavor has a topology in either form."""
        return self.spec.topology_name is not None or self.spec.topology is not None
