"""How a process reaches its API server: by a kubeconfig or as a pod. Keys are in no file once it is connected."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from api.embedded.rest.tls import issue
from api.errors import InvalidObject
from api.kube import credential_plugin, kubeconfig, service_account
from api.kube.connection import connect
from api.kube.endpoint import Endpoint
from api.kube.settings import ClientSettings

Data = dict[str, Any]
PLUGIN = """
import json, os, pathlib
count = pathlib.Path({folder!r}) / "count"
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
status = {status}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


def written(folder: Path, cluster: Data | None = None, user: Data | None = None, **more: Any) -> Path:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443", **(cluster or {})}}],
        "users": [{"name": "c", "user": {"token": "t"} if user is None else user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        **more,
    }
    path.write_text(json.dumps(config))
    return path


def plugin(folder: Path, status: str) -> Data:
    """A user whose plugin answers so; `number` counts how often it was asked."""
    program = folder / "plugin.py"
    program.write_text(PLUGIN.format(folder=str(folder), status=status))
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(program)]}}


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
    """They are read once, when the connection is opened."""
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    connection = await connect(ClientSettings(kubeconfig=written(tmp_path)))
    try:
        option = connection.request_options.get("proxy")
        assert (str(option).rstrip("/") if option else None) == proxy
        assert not connection.session.trust_env
    finally:
        await connection.close()


def pems() -> dict[str, str]:
    issued = issue(("api.example",))
    texts = {"ca": issued.ca, "certificate": issued.certificate, "key": issued.key}
    return {name: pem.decode() for name, pem in texts.items()}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def test_no_key_stays_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever becomes of the process: neither while it runs, nor where several connect, nor after credentials were refused."""
    texts, files = pems(), tmp_path / "files"
    files.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(files))
    monkeypatch.setattr("api.kube.connection._REFRESH_INTERVAL", -1.0)
    path = written(
        tmp_path,
        {"certificate-authority-data": encoded(texts["ca"])},
        {"client-certificate-data": encoded(texts["certificate"]), "client-key-data": encoded(texts["key"])},
    )
    settings = ClientSettings(kubeconfig=path)
    connections = [*await asyncio.gather(connect(settings), connect(settings)), await connect(settings)]
    assert not await connections[0].refresh(None)
    assert list(files.iterdir()) == []
    for connection in connections:
        assert connection.session.connector is not None
        await connection.close()


# ---- kubeconfig


USERS: dict[str, Data] = {
    "token": {"token": "t"},
    "password": {"username": "me", "password": "päss"},
    "nobody": {},
    "certificate": {"client-certificate": "own.pem", "client-key": "sub/key.pem"},
    "certificate in it": {"client-certificate-data": "OWN", "client-key-data": "KEY"},
    "token and its file": {"token": "t", "tokenFile": "token"},
    "token's file": {"tokenFile": "token"},
}
CLUSTERS: dict[str, Data] = {
    "plain": {"server": "http://127.0.0.1:80/"},
    "system's": {},
    "ca": {"certificate-authority": "ca.pem"},
    "ca in it": {"certificate-authority-data": "CA"},
    "unverified": {"insecure-skip-tls-verify": True},
    "named": {"tls-server-name": "another.example", "proxy-url": "http://proxy.example:3128"},
}


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("user", USERS)
async def test_a_kubeconfig_is_read_as_the_library_reads_it(user: str, cluster: str, tmp_path: Path) -> None:
    texts = pems()
    (tmp_path / "sub").mkdir()
    for name, text in (("own", texts["certificate"]), ("ca", texts["ca"]), ("sub/key", texts["key"])):
        (tmp_path / f"{name}.pem").write_text(text)
    (tmp_path / "token").write_text("filed")
    by_word = {"OWN": encoded(texts["certificate"]), "KEY": encoded(texts["key"]), "CA": encoded(texts["ca"])}

    def filled(fields: Data) -> Data:
        return {name: by_word.get(str(value), value) for name, value in fields.items()}

    path = written(tmp_path, filled(CLUSTERS[cluster]), filled(USERS[user]))
    endpoint = await kubeconfig.endpoint(path)
    library = Endpoint(**await credential_plugin.endpoint(str(path), None))
    assert (endpoint.host, endpoint.header(), endpoint.verify) == (library.host, library.header(), library.verify)
    assert (endpoint.server_name, endpoint.proxy) == (library.server_name, library.proxy)
    if cluster != "plain":  # without TLS the library reads no certificates
        assert (endpoint.ca, endpoint.certificate, endpoint.key) == (library.ca, library.certificate, library.key)
        endpoint.tls()


@pytest.mark.parametrize(
    ("more", "context", "message"),
    [
        pytest.param({}, "x", "context: 'x': must be the name of one of the contexts: c", id="no such context"),
        pytest.param({"current-context": ""}, None, "context: '': must be the name of one", id="no current context"),
        pytest.param(
            {"clusters": None}, None, "cluster: 'c': must be the name of one of the clusters: none", id="empty"
        ),
        pytest.param({"users": [{"name": "c"}] * 2}, None, "user: 'c': must be the name of one", id="twice"),
        pytest.param(
            {"clusters": [{"name": "c", "cluster": {}}]}, None, "cluster.server: None: must be", id="no server"
        ),
        pytest.param(
            {"users": [{"name": "c", "user": {"client-key-data": "?"}}]}, None, "must be base64", id="no base64"
        ),
    ],
)
async def test_what_is_wrong_in_a_kubeconfig_is_told_with_its_path(
    more: Data, context: str | None, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, **more)
    with pytest.raises(InvalidObject) as refused:
        await kubeconfig.endpoint(path, context)
    assert str(refused.value).startswith(str(path))
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", "a: &a [*a]"])
async def test_what_is_no_kubeconfig_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    with pytest.raises(InvalidObject, match="the file"):
        await kubeconfig.endpoint(tmp_path / "kubeconfig")


@pytest.mark.parametrize("name", ["certificate-authority", "client-key", "tokenFile"])
async def test_an_empty_file_is_refused_and_nothing_else_is_trusted(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    fields = {name: "empty"}
    path = written(tmp_path, fields, fields)
    with pytest.raises(InvalidObject, match="must not be empty"):
        await kubeconfig.endpoint(path)


def test_the_namespace_of_a_context(tmp_path: Path) -> None:
    contexts = [
        {"name": "c", "context": {"cluster": "c", "user": "c"}},
        {"name": "d", "context": {"cluster": "c", "user": "c", "namespace": "team"}},
    ]
    path = written(tmp_path, contexts=contexts)
    assert [kubeconfig.namespace(path, context) for context in (None, "c", "d")] == ["", "", "team"]


# ---- plugins and auth providers


async def test_a_plugin_is_asked_again_after_its_token_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.kube.connection._REFRESH_INTERVAL", -1.0)
    path = written(tmp_path, user=plugin(tmp_path, '{"token": f"token-{number}"}'))
    connection = await connect(ClientSettings(kubeconfig=path))
    try:
        assert connection.authorization() == "Bearer token-1"
        assert await connection.refresh("Bearer token-1")
        assert connection.authorization() == "Bearer token-2"
        (tmp_path / "plugin.py").unlink()
        assert not await connection.refresh("Bearer token-2")
        assert connection.authorization() == "Bearer token-2"
    finally:
        await connection.close()


async def test_the_certificate_of_a_plugin_is_used(tmp_path: Path) -> None:
    texts = pems()
    status = {"clientCertificateData": texts["certificate"], "clientKeyData": texts["key"]}
    path = written(tmp_path, user=plugin(tmp_path, repr(status)))
    endpoint = await kubeconfig.endpoint(path)
    assert (endpoint.certificate, endpoint.key) == (texts["certificate"], texts["key"])
    endpoint.tls()


async def test_a_plugin_that_never_answers_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig, "_ANSWERS_WITHIN", 0.5)
    path = written(tmp_path, user=plugin(tmp_path, "__import__('time').sleep(60)"))
    with pytest.raises(InvalidObject, match=r"no answer within 0\.5 s"):
        await kubeconfig.endpoint(path)


async def test_what_a_plugin_complains_about_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, user=plugin(tmp_path, 'exit("log in first")'))
    with pytest.raises(InvalidObject, match=r"credentials could not be read: .*log in first"):
        await kubeconfig.endpoint(path)


async def test_the_token_of_an_identity_provider_is_used(tmp_path: Path) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 4_000_000_000}).encode()).decode().rstrip("=")
    provider = {"name": "oidc", "config": {"id-token": f"e30.{claims}.e30"}}
    path = written(tmp_path, user={"auth-provider": provider})
    assert (await kubeconfig.endpoint(path)).header() == f"Bearer e30.{claims}.e30"


def ran(folder: Path) -> list[str]:
    return [file.name for file in folder.glob("run-*")]


async def test_nothing_of_the_working_directory_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who runs a command in a folder of somebody else runs nothing of his."""
    for name in ("yaml", "aiohttp", "settings"):
        (tmp_path / f"{name}.py").write_text(f'open("run-{name}", "w")')
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, user=plugin(tmp_path, '{"token": "t"}'))
    assert (await kubeconfig.endpoint(path)).header() == "Bearer t"
    assert ran(tmp_path) == []


# ---- in a cluster


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a ServiceAccount, in a pod."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text(f"# München\n{pems()['ca']}", encoding="utf-8")
    return tmp_path


def test_a_pod_reaches_the_server_by_its_service_account(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = service_account.endpoint(pod)
    assert (endpoint.host, endpoint.header(), endpoint.verify) == ("https://127.0.0.1:443", "Bearer first", True)
    assert endpoint.tls().cert_store_stats()["x509"] == 1
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert service_account.endpoint(pod).host == "https://[fd00::1]:443"


def test_a_renewed_token_is_used_and_the_last_one_while_there_is_none(
    pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = service_account.endpoint(pod)
    (pod / "token").write_text("second")
    assert endpoint.header() == "Bearer first"
    monkeypatch.setattr("api.kube.endpoint.TOKEN_PERIOD", 0.0)
    assert endpoint.header() == "Bearer second"
    for lost in (lambda: (pod / "token").write_text(""), (pod / "token").unlink):
        lost()
        assert endpoint.header() == "Bearer second"


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_pod_without_an_account_says_what_lacks(name: str, pod: Path) -> None:
    (pod / name).write_text("")
    with pytest.raises(InvalidObject, match=f"{name}.*must not be empty"):
        service_account.endpoint(pod)
    (pod / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        service_account.endpoint(pod)


@pytest.mark.parametrize("name", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
def test_a_process_that_is_in_no_pod_says_what_lacks(name: str, pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name)
    with pytest.raises(InvalidObject, match=name):
        service_account.endpoint(pod)
