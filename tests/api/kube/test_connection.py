"""What the environment says of proxies is asked once, when the connection is made; keys are in no file after it."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from pathlib import Path

import pytest

from api.embedded.rest.tls import issue
from api.kube.certificates import Files
from api.kube.connection import connect
from api.kube.settings import ClientSettings

Data = dict[str, str]


def kubeconfig(folder: Path, cluster: Data | None = None, user: Data | None = None) -> Path:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443", **(cluster or {})}}],
        "users": [{"name": "c", "user": user or {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"https_proxy": "http://proxy.example:3128"}, "http://proxy.example:3128", id="one"),
        pytest.param(
            {"https_proxy": "http://proxy.example:3128", "no_proxy": "api.example"}, None, id="not for this server"
        ),
    ],
)
async def test_proxies_of_the_environment(
    environment: dict[str, str], proxy: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    connection = await connect(ClientSettings(kubeconfig=kubeconfig(tmp_path)))
    try:
        found = connection.request_options.get("proxy")
        assert (str(found).rstrip("/") if found else None) == proxy
        assert not connection.session.trust_env
    finally:
        await connection.close()


async def test_no_key_stays_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever becomes of the process: neither while it runs, nor where several connect, nor after credentials were refused."""
    made, files = issue(("api.example",)), tmp_path / "files"
    files.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(files))
    monkeypatch.setattr("api.kube.connection.FILES", Files())
    monkeypatch.setattr("api.kube.connection._REFRESH_INTERVAL", -1.0)
    texts = {
        name: base64.b64encode(pem).decode()
        for name, pem in (("ca", made.ca), ("own", made.certificate), ("key", made.key))
    }
    path = kubeconfig(
        tmp_path,
        {"certificate-authority-data": texts["ca"]},
        {"client-certificate-data": texts["own"], "client-key-data": texts["key"]},
    )
    settings = ClientSettings(kubeconfig=path)
    connections = [*await asyncio.gather(connect(settings), connect(settings)), await connect(settings)]
    assert not await connections[0].refresh(None)
    assert list(files.iterdir()) == []
    for connection in connections:
        assert connection.session.connector is not None
        await connection.close()
