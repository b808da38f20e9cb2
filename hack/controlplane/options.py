"""The options of a cluster, and the paths and ports of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from admission.cli.local_cluster.ports import free_ports

STAGES = Path(__file__).resolve().parent / "kwok-stages.yaml"


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of a cluster; the defaults suit a test with some tens of nodes.

    For hundreds of nodes add "TaintNodesByCondition" to `disable_admission` and create nodes that are Ready (as nodes.node
    does). Without the not-ready taint, which the controller manager removes node by node, 1000 nodes are usable in 2 s
    instead of 24.
    """

    jobset: bool = False
    lws: bool = False  # the LeaderWorkerSet controller, built when first needed
    operators: tuple[str, ...] = ()  # names in hack/controlplane/operators, built when first needed
    kwok: bool = True
    scheduler: bool = True
    controller_manager: bool = True
    tmpfs: bool = False  # etcd's data in memory (/dev/shm)
    gogc: int | None = 300  # None: 100, as Go does; 400: a quarter less CPU than that, twice the memory
    # With ServiceAccount admission on, a pod in a new namespace is refused until the controller manager has created its
    # default account.
    disable_admission: tuple[str, ...] = ("ServiceAccount",)
    feature_gates: Mapping[str, bool] = field(default_factory=dict, hash=False)
    node_lease_seconds: int = 0  # 0: none, nodes never time out; 40 as kubelets have it: lost ones fail after 50 s
    node_monitor_period: str = "1s"  # 5s for thousands of nodes: looking at 5000 each second costs a tenth of a core
    kwok_stages: Path = STAGES


@dataclass(frozen=True, slots=True)
class OperatorPorts:
    """Loopback ports of one operator."""

    webhook: int
    health: int


@dataclass(frozen=True, slots=True)
class Ports:
    """Loopback ports of one cluster's servers."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int
    jobset_webhook: int
    jobset_health: int
    lws_webhook: int
    lws_health: int


@dataclass(frozen=True, slots=True)
class ClusterPaths:
    """Run folder, ports and etcd's data folder of one cluster."""

    folder: Path
    ports: Ports
    etcd_data: Path
    operators: Mapping[str, OperatorPorts] = field(default_factory=dict)

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://127.0.0.1:{self.ports.apiserver}"

    def pki(self, name: str) -> Path:
        return self.folder / "pki" / name

    def kubeconfig(self, user: str) -> Path:
        return self.folder / f"{user}.kubeconfig"

    def log(self, program: str) -> Path:
        return self.folder / f"{program}.log"


def site(folder: Path, options: ClusterOptions) -> ClusterPaths:
    """Selects free ports for a cluster in `folder`."""
    ports = Ports(*free_ports(10))
    data = Path("/dev/shm") / f"stowage-etcd-{ports.etcd}" if options.tmpfs else folder / "etcd"
    operators = {name: OperatorPorts(*free_ports(2)) for name in options.operators}
    return ClusterPaths(folder, ports, data, operators)
