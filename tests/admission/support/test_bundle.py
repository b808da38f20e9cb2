"""`stowage support-bundle` on the embedded server: what the archive holds, and how the command ends (20, 2)."""

from __future__ import annotations

import asyncio
import stat
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from typer.testing import CliRunner, Result

from admission.cli.local_cluster.install import manifests
from admission.cli.main import app
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.kube.client import Kube
from api.kube.resources import CONFIG_MAPS, CRDS, JOBS, NAMESPACES, NODES, PODS, SECRETS, WORKLOADS
from api.kube.settings import ClientSettings
from tests.admission.cli.test_endings import DEAD
from tests.admission.support.test_redaction import JWT, OBJECTS, POD_SPEC

OURS = "stowage-system"
SERVED = {"/log": f"started\n{JWT}\npassword=CANARY\n", "/proxy/metrics": "kueue_pending_workloads 3\n"}


async def answer(request: web.Request) -> web.StreamResponse | None:
    """Logs and metrics, which the embedded server does not have."""
    for end, said in SERVED.items():
        if request.path.endswith(end):
            missing = request.query.get("previous") == "true"
            return web.Response(status=400 if missing else 200, text=said)
    return None


@pytest_asyncio.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    """A cluster with secrets in every place that the bundle reads."""
    async with EmbeddedServer(replace(EmbeddedSettings(), intercept=answer)) as server:
        found = server.kubeconfig(tmp_path / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=found)) as kube:
            await _fill(kube)
        yield found


async def _fill(kube: Kube) -> None:
    for crd in (one for one in manifests() if one["kind"] == CRDS.kind):
        await kube.create(CRDS, {**crd, "spec": {**crd["spec"], "conversion": {"strategy": "None"}}})
    for name in (OURS, "a"):
        await kube.create(NAMESPACES, {"metadata": {"name": name}})
    await kube.create(NODES, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8"}}})
    await kube.create(SECRETS, {"metadata": {"name": "s", "namespace": OURS}, "data": {"k": "Q0FOQVJZ"}})
    settings = {"admission.yaml": "logLevel: INFO\n", "other": "CANARY"}
    await kube.create(CONFIG_MAPS, {"metadata": {"name": "c", "namespace": OURS}, "data": settings})
    pod_spec = {key: POD_SPEC[key] for key in ("containers", "nodeSelector")}
    labels = {"app.kubernetes.io/name": "stowage"}
    await kube.create(PODS, {"metadata": {"name": "p", "namespace": OURS, "labels": labels}, "spec": pod_spec})
    job: dict[str, Any] = {"template": {"spec": {**pod_spec, "restartPolicy": "Never"}}, "suspend": True}
    await kube.create(JOBS, {"metadata": {"name": "j", "namespace": "a"}, "spec": job})
    template = {"spec": pod_spec}
    metadata = {"name": "w", "namespace": "a", "annotations": OBJECTS["a Workload"]["metadata"]["annotations"]}
    spec = {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": template}]}
    workload = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": metadata, "spec": spec}
    await kube.create(WORKLOADS, workload)


async def bundle(*arguments: object) -> Result:
    words = ["support-bundle", *map(str, arguments)]
    return await asyncio.to_thread(lambda: CliRunner().invoke(app, words))


async def test_the_archive_holds_what_helps_and_no_secret(kubeconfig: Path, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tgz"
    done = await bundle("-o", path, "--kubeconfig", kubeconfig)
    assert done.exit_code == 0, done.output
    with tarfile.open(path) as tar:
        read = {one.name.removeprefix("stowage-support/"): tar.extractfile(one) for one in tar.getmembers()}
        files = {name: file.read().decode() for name, file in read.items() if file is not None}
    assert {
        "README.txt",
        "version.json",
        "doctor.json",
        "snapshot.json",
        "logs/p-main.log",
        "metrics/p.prom",
        "objects/workloads.kueue.x-k8s.io.json",
        "objects/pods.core.json",
        "objects/nodes.core.json",
    } <= files.keys()
    assert "objects/secrets.core.json" not in files
    assert files["logs/p-main.log"].startswith("started\n")
    assert "kueue_pending_workloads 3" in files["metrics/p.prom"]
    assert "logLevel: INFO" in files["objects/configmaps.core.json"]
    assert [name for name, text in files.items() if "CANARY" in text or "Q0FOQVJZ" in text] == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (tmp_path / "snapshot.json").write_text(files["snapshot.json"])
    words = ["simulate", "--snapshot", str(tmp_path / "snapshot.json"), "--json"]
    simulated = await asyncio.to_thread(lambda: CliRunner().invoke(app, words))
    assert simulated.exit_code == 0, "the snapshot can still be read"
    kept = path.read_bytes()
    again = await bundle("-o", path, "--no-snapshot", "--kubeconfig", kubeconfig)
    assert again.exit_code == 2
    assert again.stderr.startswith("no bundle: ")
    assert path.read_bytes() == kept, "a file that is there is never written over"


async def test_a_part_that_cannot_be_read_is_named(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(SERVED, "/proxy/metrics")
    done = await bundle("-o", tmp_path / "b.tgz", "--no-snapshot", "--kubeconfig", kubeconfig)
    assert done.exit_code == 1
    assert "metrics/p.prom: not in the bundle: " in done.stderr
    with tarfile.open(tmp_path / "b.tgz") as tar:
        file = tar.extractfile("stowage-support/README.txt")
        assert file is not None
        assert "metrics/p.prom" in file.read().decode().partition("Could not be read:")[2]


def test_without_a_cluster_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "dead").write_text(DEAD)
    done = CliRunner().invoke(
        app, ["support-bundle", "-o", str(tmp_path / "b"), "--kubeconfig", str(tmp_path / "dead")]
    )
    assert done.exit_code == 2
    assert not (tmp_path / "b").exists()
