"""The arguments of every server, as pure functions of paths and options. cluster.py starts the servers with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hack.controlplane.options import ClusterOptions, ClusterPaths

# Controllers that need a cloud, a network or disks, which a loopback cluster lacks.
_LEFT_OUT = (
    "nodeipam",
    "service-lb-controller",
    "node-route-controller",
    "cloud-node-lifecycle-controller",
    "certificatesigningrequest-signing-controller",
    "persistentvolume-attach-detach-controller",
)


def etcd(site: ClusterPaths, options: ClusterOptions) -> list[str]:
    client, peer = f"http://127.0.0.1:{site.ports.etcd}", f"http://127.0.0.1:{site.ports.etcd_peer}"
    return [
        "--name=default",
        f"--data-dir={site.etcd_data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--quota-backend-bytes={8 << 30}",
        "--snapshot-count=50000",
        # avoids a new election after a pause of the machine
        "--heartbeat-interval=500",
        "--election-timeout=5000",
    ]


def apiserver(site: ClusterPaths, options: ClusterOptions) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{site.ports.etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={site.ports.apiserver}",
        # the `kubernetes` Endpoints cannot contain a loopback address: do not write them
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/16",
        *_serving(site, "apiserver"),
        f"--client-ca-file={site.pki('ca.crt')}",
        *_front_proxy(site),
        f"--service-account-issuer={site.server}",
        f"--service-account-key-file={site.pki('service-accounts.pub')}",
        f"--service-account-signing-key-file={site.pki('service-accounts.key')}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--anonymous-auth=true",
        f"--disable-admission-plugins={','.join(options.disable_admission)}",
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=1500",
        "--event-ttl=10m",
        "--profiling=false",
        "--shutdown-delay-duration=0s",
        "--goaway-chance=0",
        # compressing large lists on loopback only costs time
        _gates({"APIResponseCompression": False, **options.feature_gates}),
    ]


def controller_manager(site: ClusterPaths, options: ClusterOptions) -> list[str]:
    grace = f"{options.node_lease_seconds + 10}s" if options.node_lease_seconds else "8760h"
    return [
        f"--kubeconfig={site.kubeconfig('controller-manager')}",
        *_delegated(site, "controller-manager"),
        f"--secure-port={site.ports.controller_manager}",
        f"--root-ca-file={site.pki('ca.crt')}",
        f"--service-account-private-key-file={site.pki('service-accounts.key')}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--concurrent-job-syncs=10",
        "--concurrent-gc-syncs=20",
        "--min-resync-period=12h",
        "--profiling=false",
        "--controllers=" + ",".join(["*", *(f"-{name}" for name in _LEFT_OUT)]),
        f"--node-monitor-grace-period={grace}",
        f"--node-monitor-period={options.node_monitor_period}",
        "--node-eviction-rate=100",
        "--secondary-node-eviction-rate=100",
        "--terminated-pod-gc-threshold=0",
        "--allocate-node-cidrs=false",
        *([_gates(options.feature_gates)] if options.feature_gates else []),
    ]


def scheduler(site: ClusterPaths, options: ClusterOptions) -> list[str]:
    return [
        f"--config={site.folder / 'scheduler.json'}",
        *_delegated(site, "scheduler"),
        f"--secure-port={site.ports.scheduler}",
        *([_gates(options.feature_gates)] if options.feature_gates else []),
    ]


def scheduler_config(site: ClusterPaths) -> dict[str, Any]:
    """Returns the KubeSchedulerConfiguration: the stock profile with a short backoff, for fast tests of waiting pods."""
    connection = {"kubeconfig": str(site.kubeconfig("scheduler")), "qps": 1000, "burst": 2000}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {**connection, "contentType": "application/vnd.kubernetes.protobuf"},
        "leaderElection": {"leaderElect": False},
        "parallelism": 4,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,
    }


def kwok(site: ClusterPaths, options: ClusterOptions) -> list[str]:
    return [
        f"--kubeconfig={site.kubeconfig('kwok')}",
        f"--config={options.kwok_stages}",
        "--manage-all-nodes=true",
        "--node-ip=10.128.0.1",
        "--cidr=10.64.0.0/10",
        "--node-port=0",
        f"--server-address=127.0.0.1:{site.ports.kwok}",
        f"--node-lease-duration-seconds={options.node_lease_seconds}",
    ]


def jobset(site: ClusterPaths, options: ClusterOptions) -> list[str]:
    return [
        f"--config={site.folder / 'jobset.json'}",
        f"--kubeconfig={site.kubeconfig('jobset')}",
        "--zap-log-level=info",
    ]


def jobset_config(site: ClusterPaths) -> dict[str, Any]:
    """Returns the JobSet controller's Configuration: its webhook on loopback with a certificate from `jobset-certs`."""
    webhook = {"port": site.ports.jobset_webhook, "host": "127.0.0.1", "certDir": str(site.folder / "jobset-certs")}
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": webhook,
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{site.ports.jobset_health}"},
        "clientConnection": {"qps": 500, "burst": 1000},
    }


def lws(site: ClusterPaths, options: ClusterOptions) -> list[str]:
    return [f"--config={site.folder / 'lws.json'}", f"--kubeconfig={site.kubeconfig('lws')}", "--zap-log-level=info"]


def lws_config(site: ClusterPaths) -> dict[str, Any]:
    """Returns the LeaderWorkerSet controller's Configuration: its webhook on loopback, certificate from `lws-certs`."""
    return {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"port": site.ports.lws_webhook, "host": "127.0.0.1", "certDir": str(site.folder / "lws-certs")},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{site.ports.lws_health}"},
        "clientConnection": {"qps": 500, "burst": 1000},
    }


def _serving(site: ClusterPaths, name: str) -> list[str]:
    return [f"--tls-cert-file={site.pki(f'{name}.crt')}", f"--tls-private-key-file={site.pki(f'{name}.key')}"]


def _front_proxy(site: ClusterPaths) -> list[str]:
    """Returns the arguments by which the API server forwards requests of aggregated APIs with their user in headers."""
    return [
        f"--requestheader-client-ca-file={site.pki('front-proxy/ca.crt')}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={site.pki('front-proxy/client.crt')}",
        f"--proxy-client-key-file={site.pki('front-proxy/client.key')}",
    ]


def _delegated(site: ClusterPaths, name: str) -> list[str]:
    """Returns the arguments of controller manager and scheduler by which the API server authorizes health requests."""
    kubeconfig = site.kubeconfig(name)
    return [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        *_serving(site, name),
    ]


def _gates(gates: Mapping[str, bool]) -> str:
    return "--feature-gates=" + ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())
