"""Kueue itself, built from its own go.mod, with the objects of its `config/default`: only tests of a migration need it.

Its manager runs beside the cluster and answers the webhooks on loopback. Kueue reads the certificate of its metrics below /etc,
a path that is compiled in; so the manager gets a /etc of its own (`unshare`), and this works where a user may make namespaces.
"""

from __future__ import annotations

import base64
import copy
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import yaml

from admission.cli.local_cluster.ports import free_ports
from hack.controlplane import build, kubeconfig, manifests
from hack.controlplane.api import eventually
from hack.controlplane.build import Recipe, Tools
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.errors import ControlPlaneError

NAMESPACE: Final = "kueue-system"
MANAGER_CONFIG: Final = "controller_manager_config.yaml"
_OBJECTS: Final = "objects"
_REGISTRATIONS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_OWN_ETC: Final = (
    "mount -t tmpfs none /etc && mkdir -p /etc/kueue/metrics/certs && cp {certificates}/* /etc/kueue/metrics/certs/"
    ' && exec setpriv --pdeathsig KILL "$0" "$@"'
)


def _shipped(module: Path) -> dict[str, list[manifests.Manifest]]:
    """What `kubectl apply -k config/default` creates."""
    words = [str(build.ensure().program("kubectl")), "kustomize", str(module / "config" / "default")]
    rendered = subprocess.run(words, capture_output=True, check=True, text=True).stdout
    return {_OBJECTS: list(yaml.safe_load_all(rendered))}


RECIPE: Final = Recipe("kueue", Path(__file__).resolve().parent, ("kueue",), shipped={"sigs.k8s.io/kueue": _shipped})


@contextmanager
def running(cluster: ControlPlane, tools: Tools) -> Iterator[None]:
    """Installs Kueue and runs its manager while the block runs. Raises ControlPlaneError if it does not get ready.

    Its visibility server is left out: the API server would ask a Service that no pod stands behind.
    """
    webhook, health = free_ports(2)
    folder = cluster.folder / "kueue"
    certificates = folder / "certificates"
    cluster.authority.serving("kueue", "kueue-webhook").copy_to(certificates)
    objects = _at_loopback(tools.objects(_OBJECTS), f"https://127.0.0.1:{webhook}", cluster)
    _apply(cluster, [each for each in objects if each["kind"] not in _REGISTRATIONS])
    settings = _settings(objects, webhook, health, certificates)
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    words = ["unshare", "--user", "--map-root-user", "--mount"]
    words += ["sh", "-c", _OWN_ETC.format(certificates=certificates), str(tools.program("kueue"))]
    account = cluster.authority.client("kueue-client", "kueue", ("system:masters",))
    access = kubeconfig.write(
        folder / "kubeconfig", cluster.server, cluster.authority.certificate, kubeconfig.certificate_user(account)
    )
    with (folder / "manager.log").open("wb") as log:
        process = subprocess.Popen(
            [*words, f"--config={folder / 'config.yaml'}", f"--kubeconfig={access}"], stdout=log, stderr=log
        )
    try:
        _wait(process, f"http://127.0.0.1:{health}/readyz", folder / "manager.log")
        _apply(cluster, [each for each in objects if each["kind"] in _REGISTRATIONS])
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def _apply(cluster: ControlPlane, objects: list[manifests.Manifest]) -> None:
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump_all(objects))


def _at_loopback(objects: list[manifests.Manifest], base: str, cluster: ControlPlane) -> list[manifests.Manifest]:
    """Copies whose webhooks are at the URL."""
    authority = cluster.authority.certificate.read_bytes()
    kept = copy.deepcopy([each for each in objects if each["kind"] != "APIService"])
    for each in kept:
        if each["kind"] in _REGISTRATIONS:
            each["webhooks"] = manifests.at_url([each], base, authority)[0]["webhooks"]
        elif each["kind"] == "CustomResourceDefinition" and "webhook" in each["spec"].get("conversion", {}):
            bundle = base64.b64encode(authority).decode()
            each["spec"]["conversion"]["webhook"]["clientConfig"] = {"url": f"{base}/convert", "caBundle": bundle}
    return kept


def _settings(objects: list[manifests.Manifest], webhook: int, health: int, certificates: Path) -> dict[str, Any]:
    """Those of the installation's ConfigMap, with addresses on loopback and without what a single process needs not."""
    (found,) = (each for each in objects if each["kind"] == "ConfigMap" and MANAGER_CONFIG in each["data"])
    return {
        **yaml.safe_load(found["data"][MANAGER_CONFIG]),
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": webhook, "host": "127.0.0.1", "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "featureGates": {"VisibilityOnDemand": False},
    }


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    def ready() -> bool:
        if process.poll() is not None:
            raise ControlPlaneError(f"Kueue's manager has ended:\n{log.read_text()[-3000:]}")
        with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    eventually("Kueue's manager is ready", ready, 120)
