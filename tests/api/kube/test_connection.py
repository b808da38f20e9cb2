"""What the environment says of proxies is asked once, when the connection is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from api.kube.connection import connect
from api.kube.settings import ClientSettings


def kubeconfig(folder: Path) -> Path:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
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
