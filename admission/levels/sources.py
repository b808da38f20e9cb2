"""The label keys by which clouds and Topograph state where a node is. A new one is one entry of `SOURCES`.

Looked up on 2026-11-25 in what GKE, EKS, AKS, OKE and CoreWeave document of their nodes, and in Topograph's releases. Topograph
has renamed its keys three times; the newest keys count the tiers of switches from the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from api.names import HOSTNAME_LABEL


@dataclass(frozen=True, slots=True)
class Source:
    """Where labels come from, and the keys of its levels, widest first."""

    name: str
    keys: tuple[str, ...]


_NVIDIA, _OLD = "network.topology.nvidia.com", "network.topology.kubernetes.io"
_GCE, _AWS, _OCI = "cloud.google.com", "topology.k8s.aws", "oci.oraclecloud.com"
_COREWEAVE, _INFINIBAND = "backend.coreweave.cloud", "ib.coreweave.cloud"
_ACCELERATOR: Final = "accelerator"

SOURCES: Final = (
    Source("Topograph", (*(f"{_NVIDIA}/tier-{tier}" for tier in (4, 3, 2, 1, 0)), f"{_NVIDIA}/{_ACCELERATOR}")),
    Source("Topograph (leaf)", tuple(f"{_NVIDIA}/{level}" for level in ("core", "spine", "leaf", _ACCELERATOR))),
    Source(
        "Topograph (block)", tuple(f"{_NVIDIA}/{level}" for level in ("datacenter", "spine", "block", _ACCELERATOR))
    ),
    Source(
        "Topograph (kubernetes.io)",
        tuple(f"{_OLD}/{level}" for level in ("datacenter", "spine", "block", _ACCELERATOR)),
    ),
    Source("GKE", tuple(f"{_GCE}/gce-topology-{level}" for level in ("block", "subblock", "host"))),
    Source("EKS", (*(f"{_AWS}/network-node-layer-{layer}" for layer in (1, 2, 3, 4)), f"{_AWS}/ultraserver-id")),
    Source(
        "CoreWeave",
        (*(f"{_COREWEAVE}/{level}" for level in ("fabric", "superpod", "leafgroup")), "ds.coreweave.com/nvlink.domain"),
    ),
    Source("CoreWeave (ib)", tuple(f"{_INFINIBAND}/{level}" for level in ("fabric", "superpod", "leafgroup"))),
    Source("OCI", tuple(f"{_OCI}/rdma.{level}_id" for level in ("hpc_island", "network_block", "local_block"))),
    Source("OCI (host)", tuple(f"{_OCI}/host.{level}_id" for level in ("network_block", "rack"))),
    Source("AKS", ("kubernetes.azure.com/ppg",)),
)
"""In order of preference if equally many nodes have the labels of several sources."""

WIDER: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
"""Levels above all others; one is left out if all nodes have the same value."""
CLIQUE: Final = "nvidia.com/gpu.clique"
"""The NVLink domain and clique that GPU Feature Discovery writes; below all others but the host."""
NVLINK: Final = frozenset(
    (
        CLIQUE,
        f"{_NVIDIA}/{_ACCELERATOR}",
        f"{_OLD}/{_ACCELERATOR}",
        f"{_AWS}/ultraserver-id",
        "ds.coreweave.com/nvlink.domain",
    )
)
"""Keys of NVLink domains, which may lie across the switches of the network; then they are no level of its tree."""
HOST: Final = HOSTNAME_LABEL

FLAVOR_KEYS: Final = (
    "cloud.google.com/gke-accelerator",
    "nvidia.com/gpu.product",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.azure.com/agentpool",
)
"""On nodes, by clouds and GPU Feature Discovery: the kind of machine; the first that a node has makes its flavor."""
