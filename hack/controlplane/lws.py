"""Installs LeaderWorkerSet in a new cluster: its CRDs, its webhook configurations, and a probe that both work.

Built from a separate go.mod (leaderworkerset/), for tests that need it. cluster.py starts the controller process between
`prepare` and `probe`.
"""

from __future__ import annotations

import json
from pathlib import Path

from hack.controlplane import flags, manifests
from hack.controlplane.api import Api, Object, eventually
from hack.controlplane.build import HERE, Recipe, Tools
from hack.controlplane.errors import RequestError
from hack.controlplane.jobset import establish
from hack.controlplane.options import ClusterPaths
from hack.controlplane.pki import Authority

MODULE = "sigs.k8s.io/lws"
PROGRAM = "lws"
_SETS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"


def _shipped(module: Path) -> dict[str, list[manifests.Manifest]]:
    return {"lws-crds": manifests.lws_crds(module), "lws-webhooks": manifests.lws_webhooks(module)}


RECIPE = Recipe("leaderworkerset", HERE / "leaderworkerset", (PROGRAM,), {"cmd": PROGRAM}, {MODULE: _shipped})


def prepare(api: Api, site: ClusterPaths, authority: Authority, tools: Tools) -> None:
    """Creates everything that the controller reads at its start."""
    for crd in tools.objects("lws-crds"):
        establish(api, crd)
    authority.serving("lws", "lws-webhook").copy_to(site.folder / "lws-certs")
    (site.folder / "lws.json").write_text(json.dumps(flags.lws_config(site)))


def register(api: Api, site: ClusterPaths, ca: bytes, tools: Tools) -> None:
    """Creates the webhook configurations with loopback URLs, after the CRDs and before any LeaderWorkerSet."""
    base = f"https://127.0.0.1:{site.ports.lws_webhook}"
    for registration in manifests.at_url(tools.objects("lws-webhooks"), base, ca):
        api.create(f"/apis/admissionregistration.k8s.io/v1/{registration['kind'].lower()}s", registration)


def probe(api: Api) -> None:
    """Repeats a dry-run create until it succeeds."""
    eventually("a LeaderWorkerSet passes its webhooks", lambda: _accepted(api))


def example(name: str) -> Object:
    """Returns a minimal LeaderWorkerSet: one group of one pod."""
    worker = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": worker}},
    }


def _accepted(api: Api) -> bool:
    try:
        api.create(f"{_SETS}?dryRun=All", example("probe"))
    except RequestError:
        return False
    return True
