"""The operators of job kinds for `make e2e-kinds`: the source of each, and its arguments on loopback.

Each folder has the go.mod that pins one operator, which is built when a cluster first needs it. CRDs come from the same module,
without conversion webhooks. An operator's own webhooks are not registered: in these tests only Stowage validates objects.

Two programs cannot run here and have a stand-in: spark-submit (spark_submit.py), and the dashboard in the head of a Ray cluster
(tests/e2e/kinds/dashboard.py).

The MPI operator always listens on port 8080 of all addresses and Argo's controller on 6060, so only one such cluster can run
per machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from api.text.manifests import read
from hack.controlplane import manifests
from hack.controlplane.api import Api
from hack.controlplane.build import Recipe
from hack.controlplane.options import ClusterPaths, OperatorPorts
from hack.controlplane.pki import KeyPairFiles

HERE = Path(__file__).resolve().parent
CRDS: Final = "crds"

# Where Kubeflow's training operator expects the certificate that a kubelet mounts; the path is compiled in.
_MOUNTED_CERTIFICATE = Path("/tmp/k8s-webhook-server/serving-certs/tls.crt")
_ROTATED = "validator.training-operator.kubeflow.org"
_NAMESPACES = "/api/v1/namespaces"
_SPARK_SUBMIT = "hack.controlplane.operators.spark_submit"
_APP_WRAPPER_CONFIG = "appwrapper-operator-config"
_REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

Arguments = Callable[[ClusterPaths, OperatorPorts], list[str]]
Environment = Callable[[ClusterPaths, OperatorPorts], Mapping[str, str]]
Prepare = Callable[[Api, ClusterPaths, OperatorPorts], None]


def _nothing_more(site: ClusterPaths, ports: OperatorPorts) -> dict[str, str]:
    """Adds no variables."""
    return {}


def _nothing(api: Api, site: ClusterPaths, ports: OperatorPorts) -> None:
    """Prepares nothing: the operator needs only its CRDs."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    `left_out` are CRD files of the module that another operator has in a newer version. `health_port` is the program's fixed
    port, or None if it can be chosen.
    """

    name: str
    module: str
    package: str
    crds: str
    arguments: Arguments
    left_out: frozenset[str] = frozenset()
    environment: Environment = _nothing_more
    prepare: Prepare = _nothing
    health_port: int | None = None
    health_path: str = "readyz"

    @property
    def recipe(self) -> Recipe:
        """How to build the operator."""
        renamed = {self.package: self.name}
        return Recipe(self.name, HERE / self.name, (self.name,), renamed, {self.module: self._shipped})

    def health(self, ports: OperatorPorts) -> str:
        """Returns the URL that returns status 200 when the operator is ready."""
        return f"http://127.0.0.1:{self.health_port or ports.health}/{self.health_path}"

    def variables(self, site: ClusterPaths) -> dict[str, str]:
        """Returns the environment of the process. Webhook servers look for their certificate below TMPDIR."""
        kubeconfig = str(site.kubeconfig(self.name))
        own = self.environment(site, site.operators[self.name])
        return {"KUBECONFIG": kubeconfig, "TMPDIR": str(site.folder / self.name), **own}

    def _shipped(self, module: Path) -> dict[str, list[manifests.Manifest]]:
        files = [path for path in sorted((module / self.crds).glob("*.yaml")) if path.name not in self.left_out]
        found = [document for path in files for document in read(path)]
        return {CRDS: [document for document in found if document.get("kind") == "CustomResourceDefinition"]}


def _mpi(site: ClusterPaths, ports: OperatorPorts) -> list[str]:
    return ["--lock-namespace=default", "--kube-api-qps=500", "--kube-api-burst=1000"]


def _training(site: ClusterPaths, ports: OperatorPorts) -> list[str]:
    return [
        f"--health-probe-bind-address=127.0.0.1:{ports.health}",
        "--metrics-bind-address=0",
        f"--webhook-server-port={ports.webhook}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        # It has no CRD of MPIJob v1, and ends after two minutes in which it waits for that.
        *(f"--enable-scheme={kind}" for kind in ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob")),
    ]


def _prepare_training(api: Api, site: ClusterPaths, ports: OperatorPorts) -> None:
    """Creates the Secret and the webhook configuration in which the operator rotates its certificate; it waits for both.

    The configuration is for a kind that does not exist: its certificate is for a Service's name and would not work for a
    webhook on loopback.
    """
    api.create(_NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow"}})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "training-operator-webhook-cert"}}
    api.create(f"{_NAMESPACES}/kubeflow/secrets", secret)
    webhook = {
        "name": "nothing.training-operator.kubeflow.org",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {"url": f"https://127.0.0.1:{ports.webhook}/nothing"},
        "rules": [
            {"apiGroups": ["nothing.test"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"]}
        ],
    }
    registration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": _ROTATED},
        "webhooks": [webhook],
    }
    api.create(_REGISTRATIONS, registration)
    _MOUNTED_CERTIFICATE.parent.mkdir(parents=True, exist_ok=True)
    _MOUNTED_CERTIFICATE.touch()
    _serve_with(site, "training")


def _serve_with(site: ClusterPaths, name: str) -> None:
    """Copies the certificate of a webhook server, from cluster.py, to where controller-runtime expects it."""
    folder = site.folder / name / "k8s-webhook-server" / "serving-certs"
    KeyPairFiles(Path(site.pki(f"{name}.crt")), Path(site.pki(f"{name}.key"))).copy_to(folder)


def _kuberay(site: ClusterPaths, ports: OperatorPorts) -> list[str]:
    return [
        f"--health-probe-bind-address=127.0.0.1:{ports.health}",
        "--metrics-addr=0",
        "--enable-leader-election=false",
        "--qps=500",
        "--burst=1000",
    ]


def _kuberay_environment(site: ClusterPaths, ports: OperatorPorts) -> dict[str, str]:
    """Directs requests to the heads of Ray clusters, which kwok only simulates, to the tests at the webhook port."""
    return {"HTTP_PROXY": f"http://127.0.0.1:{ports.webhook}"}


def _appwrapper(site: ClusterPaths, ports: OperatorPorts) -> list[str]:
    return [f"--config={_APP_WRAPPER_CONFIG}"]


def _prepare_appwrapper(api: Api, site: ClusterPaths, ports: OperatorPorts) -> None:
    """Creates the ConfigMap with the operator's addresses. Without webhooks it needs no certificate."""
    config = {
        "controllerManager": {
            "metrics": {"bindAddress": "0"},
            "health": {"bindAddress": f"127.0.0.1:{ports.health}"},
        },
        "webhooksEnabled": False,
    }
    metadata = {"name": _APP_WRAPPER_CONFIG}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": json.dumps(config)}}
    api.create(f"{_NAMESPACES}/default/configmaps", body)


def _trainer(site: ClusterPaths, ports: OperatorPorts) -> list[str]:
    return [f"--config={site.folder / 'trainer' / 'config.yaml'}"]


def _prepare_trainer(api: Api, site: ClusterPaths, ports: OperatorPorts) -> None:
    """Writes the operator's configuration file. Its webhooks are served but not registered."""
    config = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{ports.health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": ports.webhook, "host": "127.0.0.1"},
        "leaderElection": {"leaderElect": False},
        "certManagement": {"enable": False},
        "clientConnection": {"qps": 500, "burst": 1000},
    }
    _serve_with(site, "trainer")
    (site.folder / "trainer" / "config.yaml").write_text(json.dumps(config))


def _spark(site: ClusterPaths, ports: OperatorPorts) -> list[str]:
    return [
        "controller",
        "start",
        "--namespaces=",
        f"--health-probe-bind-address=127.0.0.1:{ports.health}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--workqueue-ratelimiter-bucket-qps=500",
        "--enable-ui-service=false",
    ]


def _spark_environment(site: ClusterPaths, ports: OperatorPorts) -> dict[str, str]:
    return {
        "SPARK_HOME": str(site.folder / "spark"),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(site.ports.apiserver),
    }


def _prepare_spark(api: Api, site: ClusterPaths, ports: OperatorPorts) -> None:
    """Installs spark_submit.py in place of spark-submit, which is a Java program."""
    script = site.folder / "spark" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True, exist_ok=True)
    project = HERE.parents[2]
    script.write_text(f'#!/bin/sh\ncd "{project}" && exec "{sys.executable}" -m {_SPARK_SUBMIT} "$@"\n')
    script.chmod(0o755)


def _argo(site: ClusterPaths, ports: OperatorPorts) -> list[str]:
    return ["--namespace=default", "--qps=500", "--burst=1000", "--executor-image=executor"]


def _prepare_argo(api: Api, site: ClusterPaths, ports: OperatorPorts) -> None:
    """Creates the ConfigMap without which the controller does not start."""
    metrics = json.dumps({"enabled": False})
    metadata = {"name": "workflow-controller-configmap"}
    data = {"metricsConfig": metrics, "telemetryConfig": metrics}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    api.create(f"{_NAMESPACES}/default/configmaps", body)


OPERATORS: Final[Mapping[str, Operator]] = {
    each.name: each
    for each in (
        Operator(
            "training",
            "github.com/kubeflow/training-operator",
            "training-operator.v1",
            "manifests/base/crds",
            _training,
            left_out=frozenset({"kubeflow.org_mpijobs.yaml"}),
            environment=lambda site, ports: {"MY_POD_NAMESPACE": "kubeflow"},
            prepare=_prepare_training,
        ),
        Operator(
            "mpi",
            "github.com/kubeflow/mpi-operator",
            "mpi-operator",
            "manifests/base",
            _mpi,
            health_port=8080,
            health_path="healthz",
        ),
        Operator(
            "kuberay",
            "github.com/ray-project/kuberay/ray-operator",
            "ray-operator",
            "config/crd/bases",
            _kuberay,
            environment=_kuberay_environment,
        ),
        Operator(
            "appwrapper",
            "github.com/project-codeflare/appwrapper",
            "cmd",
            "config/crd/bases",
            _appwrapper,
            environment=lambda site, ports: {"NAMESPACE": "default"},
            prepare=_prepare_appwrapper,
            # /readyz works only with its webhooks
            health_path="healthz",
        ),
        Operator(
            "trainer",
            "github.com/kubeflow/trainer/v2",
            "trainer-controller-manager",
            "manifests/base/crds",
            _trainer,
            prepare=_prepare_trainer,
        ),
        Operator(
            "spark",
            "github.com/kubeflow/spark-operator/v2",
            "operator",
            "config/crd/bases",
            _spark,
            environment=_spark_environment,
            prepare=_prepare_spark,
        ),
        Operator(
            "argo",
            "github.com/argoproj/argo-workflows/v3",
            "workflow-controller",
            "manifests/base/crds/full",
            _argo,
            environment=lambda site, ports: {"LEADER_ELECTION_DISABLE": "true"},
            prepare=_prepare_argo,
            health_port=6060,
            health_path="healthz",
        ),
    )
}
"""Operators by name, in the order in which they are built and started."""
