"""Installs JobSet in a new cluster: its CRD, its webhook configurations, and a probe that both work.

cluster.py starts the controller process between `prepare` and `probe`.
"""

from __future__ import annotations

import json

from hack.controlplane import flags, manifests
from hack.controlplane.api import Api, Object, eventually
from hack.controlplane.build import Tools
from hack.controlplane.errors import RequestError
from hack.controlplane.options import ClusterPaths
from hack.controlplane.pki import Authority

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"


def prepare(api: Api, site: ClusterPaths, authority: Authority, tools: Tools) -> None:
    """Creates everything that the controller reads at its start."""
    for crd in tools.jobset_crds():
        establish(api, crd)
    authority.serving("jobset", "jobset-webhook").copy_to(site.folder / "jobset-certs")
    (site.folder / "jobset.json").write_text(json.dumps(flags.jobset_config(site)))


def establish(api: Api, crd: Object) -> None:
    """Creates a CRD and waits until it is served; its conditions are null at first."""
    api.create(_CRDS, crd)
    path = f"{_CRDS}/{crd['metadata']['name']}"
    eventually(f"CRD {crd['metadata']['name']} established", lambda: _established(api.get(path)), seconds=120.0)


def register(api: Api, site: ClusterPaths, ca: bytes, tools: Tools) -> None:
    """Creates the webhook configurations with loopback URLs, after the CRD and before any JobSet."""
    base = f"https://127.0.0.1:{site.ports.jobset_webhook}"
    for registration in manifests.at_url(tools.jobset_webhooks(), base, ca):
        api.create(f"/apis/admissionregistration.k8s.io/v1/{registration['kind'].lower()}s", registration)


def probe(api: Api) -> None:
    """Repeats a dry-run create until it succeeds: the webhooks start after the health port, and the first call takes 2 s."""
    eventually("a JobSet passes its webhooks", lambda: _accepted(api))


def example(name: str) -> Object:
    """Returns a minimal JobSet: one Job of one pod."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
    job = {"name": "main", "template": {"spec": {"template": {"spec": pod}}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [job]},
    }


def _accepted(api: Api) -> bool:
    try:
        api.create(f"{_JOBSETS}?dryRun=All", example("probe"))
    except RequestError:
        return False
    return True


def _established(crd: Object) -> bool:
    conditions = crd.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
