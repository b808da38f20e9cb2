"""Topology and ResourceFlavor: the levels of the datacenter tree and the nodes that a flavor stands for."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from api.meta import KubeModel, KubeObject, Labels
from api.names import API_VERSION


class TopologyLevel(KubeModel):
    """One level: the node label whose values are its domains."""

    node_label: str


class TopologySpec(KubeModel):
    """Levels, widest first."""

    levels: tuple[TopologyLevel, ...] = ()


class Topology(KubeObject):
    """Cluster-scoped list of levels that flavors name."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "Topology"

    spec: TopologySpec = Field(default_factory=TopologySpec)

    @property
    def levels(self) -> tuple[str, ...]:
        """The label keys, widest first."""
        return tuple(level.node_label for level in self.spec.levels)


class InlineTopology(KubeModel):
    """The first form: levels written into the flavor itself."""

    levels: tuple[str, ...] = ()


class ResourceFlavorSpec(KubeModel):
    """Which nodes, with which taints and tolerations, in which topology."""

    node_labels: Labels = Field(default_factory=dict)
    node_taints: tuple[dict[str, Any], ...] = ()
    tolerations: tuple[dict[str, Any], ...] = ()
    topology_name: str | None = None
    topology: InlineTopology | None = None


class ResourceFlavor(KubeObject):
    """Cluster-scoped kind of nodes that quota is given for."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "ResourceFlavor"

    spec: ResourceFlavorSpec = Field(default_factory=ResourceFlavorSpec)

    @property
    def topology_aware(self) -> bool:
        """Whether either form of topology is set."""
        return self.spec.topology_name is not None or self.spec.topology is not None
