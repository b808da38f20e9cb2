"""The parts of hack/controlplane that need no built programs: flags, credentials, manifests, processes."""

from __future__ import annotations

import json
import ssl
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
import yaml
from cryptography import x509

from api.text.manifests import read
from hack.controlplane import __main__ as commands
from hack.controlplane import (
    api,
    build,
    flags,
    kubeconfig,
    manifests,
    nodes,
    options,
    processes,
)
from hack.controlplane.errors import BuildError, ControlPlaneError
from hack.controlplane.options import ClusterOptions
from hack.controlplane.pki import Authority

MODULE = Path(build.__file__).parent


@pytest.fixture
def site(tmp_path: Path) -> options.ClusterPaths:
    return options.site(tmp_path, ClusterOptions())


def test_every_server_listens_on_loopback_only(site: options.ClusterPaths) -> None:
    chosen = ClusterOptions()
    for argv in (flags.apiserver, flags.controller_manager, flags.scheduler):
        assert "--bind-address=127.0.0.1" in argv(site, chosen)
    addresses = [
        flag
        for flag in flags.etcd(site, chosen) + flags.kwok(site, chosen)
        if "-urls=" in flag or "server-address" in flag
    ]
    assert len(addresses) == 5
    assert all("=http://127.0.0.1:" in flag or "=127.0.0.1:" in flag for flag in addresses)
    assert flags.jobset_config(site)["webhook"]["host"] == "127.0.0.1"


def test_rbac_decides(site: options.ClusterPaths) -> None:
    assert "--authorization-mode=RBAC" in flags.apiserver(site, ClusterOptions())


def test_options_reach_the_servers_they_are_for(site: options.ClusterPaths) -> None:
    chosen = ClusterOptions(
        disable_admission=("ServiceAccount", "TaintNodesByCondition"),
        feature_gates={"A": True, "B": False},
        node_lease_seconds=40,
        node_monitor_period="5s",
        kwok_stages=Path("/stages"),
    )
    assert "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition" in flags.apiserver(site, chosen)
    assert "--feature-gates=APIResponseCompression=false,A=true,B=false" in flags.apiserver(site, chosen)
    assert {"--node-monitor-grace-period=50s", "--node-monitor-period=5s"} <= set(
        flags.controller_manager(site, chosen)
    )
    for argv in (flags.controller_manager, flags.scheduler):
        assert "--feature-gates=A=true,B=false" in argv(site, chosen)
    assert {"--node-lease-duration-seconds=40", "--config=/stages"} <= set(flags.kwok(site, chosen))


def test_tmpfs_puts_etcds_data_into_memory(tmp_path: Path) -> None:
    assert options.site(tmp_path, ClusterOptions(tmpfs=True)).etcd_data.parent == Path("/dev/shm")
    assert options.site(tmp_path, ClusterOptions()).etcd_data == tmp_path / "etcd"


def test_the_stages_play_nodes_and_pods() -> None:
    documents = read(options.STAGES)
    stages = {
        item["metadata"]["name"]: item["spec"]["resourceRef"]["kind"] for item in documents if item["kind"] == "Stage"
    }
    assert stages == {
        "node-initialize": "Node",
        "pod-ready": "Pod",
        "pod-complete": "Pod",
        "pod-fail": "Pod",
        "pod-delete": "Pod",
        "pod-killed": "Pod",
    }
    assert nodes.DOWN in options.STAGES.read_text()


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """A TLS handshake in memory; raises ssl.SSLError if either side refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=host),
    ]
    for _ in range(6):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


def contexts(authority: Authority) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    serving, user = authority.serving("web", "web"), authority.client("me", "me", ("system:masters",))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    server.load_cert_chain(serving.certificate, serving.key)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=authority.certificate)
    client.load_cert_chain(user.certificate, user.key)
    for context in (server, client):
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    return server, client


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_both_sides_trust_the_authority_strictly(tmp_path: Path, host: str) -> None:
    handshake(*contexts(Authority(tmp_path)), host)


def test_another_authority_is_not_trusted(tmp_path: Path) -> None:
    server, _ = contexts(Authority(tmp_path / "a"))
    _, stranger = contexts(Authority(tmp_path / "b"))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, stranger, "localhost")


def test_a_client_certificate_names_user_and_groups(tmp_path: Path) -> None:
    pair = Authority(tmp_path).client("u", "someone", ("g1", "g2"))
    subject = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).subject
    assert subject.rfc4514_string() == "CN=someone,O=g2,O=g1"


def test_keys_and_kubeconfigs_are_for_their_owner_only(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    pair = authority.client("u", "u")
    path = kubeconfig.write(
        tmp_path / "k", "https://127.0.0.1:1", authority.certificate, kubeconfig.certificate_user(pair)
    )
    private, _ = authority.signing_key("service-accounts")
    assert {stat.S_IMODE(item.stat().st_mode) for item in (pair.key, private, path)} == {0o600}


def test_a_kubeconfig_is_json_with_one_user(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    path = kubeconfig.write(
        tmp_path / "k", "https://127.0.0.1:1", authority.certificate, kubeconfig.token_user("t"), "ns"
    )
    content = json.loads(path.read_text())
    assert content["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    assert content["users"] == [{"name": "test", "user": {"token": "t"}}]
    assert content["contexts"][0]["context"]["namespace"] == "ns"


def registration() -> manifests.Manifest:
    def webhook(name: str) -> manifests.Manifest:
        return {"name": name, "clientConfig": {"service": {"name": "s", "namespace": "n", "path": f"/{name}"}}}

    return {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "m"}, "webhooks": [webhook("a"), webhook("b")]}


def test_a_patch_replaces_one_webhook_and_leaves_the_input_alone() -> None:
    given = registration()
    result = manifests.patched(given, [{"op": "replace", "path": "/webhooks/1", "value": {"name": "c"}}])
    assert [webhook["name"] for webhook in result["webhooks"]] == ["a", "c"]
    assert given == registration()


@pytest.mark.parametrize(
    ("op", "path"),
    [
        pytest.param("add", "/webhooks/1", id="operation"),
        pytest.param("replace", "/webhooks/1/name", id="deeper"),
        pytest.param("replace", "/webhooks/2", id="no such webhook"),
    ],
)
def test_a_patch_of_another_form_is_noticed(op: str, path: str) -> None:
    with pytest.raises(BuildError, match=f"cannot apply {op} {path}"):
        manifests.patched(registration(), [{"op": op, "path": path, "value": {}}])


def test_webhooks_are_called_on_loopback() -> None:
    given = registration()
    (result,) = manifests.at_url([given], "https://127.0.0.1:5", b"PEM")
    assert [webhook["clientConfig"] for webhook in result["webhooks"]] == [
        {"url": "https://127.0.0.1:5/a", "caBundle": "UEVN"},
        {"url": "https://127.0.0.1:5/b", "caBundle": "UEVN"},
    ]
    assert given == registration()


@pytest.mark.parametrize(
    ("read", "place", "patches", "prefix"),
    [
        pytest.param(manifests.jobset_webhooks, "config/components/webhook", "patches", "jobset", id="JobSet"),
        pytest.param(manifests.lws_webhooks, "config/webhook", ".", "lws", id="LeaderWorkerSet"),
    ],
)
def test_the_registrations_are_read_as_kustomize_would_render_them(
    tmp_path: Path, read: Callable[[Path], list[manifests.Manifest]], place: str, patches: str, prefix: str
) -> None:
    folder = tmp_path / place
    (folder / patches).mkdir(parents=True)
    both = [registration(), {**registration(), "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "v"}}]
    (folder / "manifests.yaml").write_text(yaml.safe_dump_all(both))
    for kind, name in (("mutating", "x"), ("validating", "y")):
        patch = [{"op": "replace", "path": "/webhooks/0", "value": {"name": name}}]
        (folder / patches / f"{kind}-patch.yaml").write_text(yaml.safe_dump(patch))
    assert [(item["metadata"]["name"], item["webhooks"][0]["name"]) for item in read(tmp_path)] == [
        (f"{prefix}-m", "x"),
        (f"{prefix}-v", "y"),
    ]


def test_a_server_that_ends_is_reported_with_its_log(tmp_path: Path) -> None:
    running = processes.ServerProcesses(tmp_path, die_with_parent=True)
    running.spawn("etcd", Path("/bin/sh"), ["-c", "echo cannot listen; exit 3"], {})
    with pytest.raises(ControlPlaneError, match=r"(?s)etcd ended with 3.*cannot listen"):
        running.wait_ready("etcd", "http://127.0.0.1:1/", ssl.create_default_context(), seconds=60)
    running.stop()


def test_a_server_that_stays_silent_is_reported(tmp_path: Path) -> None:
    running = processes.ServerProcesses(tmp_path, die_with_parent=True)
    running.spawn("kwok", Path("/bin/sleep"), ["60"], {})
    (pid,) = [pid for _, pid in running.pids()]
    with pytest.raises(ControlPlaneError, match=r"kwok not ready after 0 s"):
        running.wait_ready("kwok", "http://127.0.0.1:1/", ssl.create_default_context(), seconds=0)
    running.stop()
    assert not processes.alive(pid)


def test_the_api_server_and_etcd_stop_last(tmp_path: Path) -> None:
    running = processes.ServerProcesses(tmp_path, die_with_parent=True)
    script = 'trap "echo $0 >> order; exit 0" TERM; echo > $0.started; while :; do sleep 0.02; done'
    for name in ("etcd", "apiserver", "kwok"):
        running.spawn(name, Path("/bin/sh"), ["-c", script, name], {})
    api.eventually("all trap", lambda: len(list(tmp_path.glob("*.started"))) == 3)
    running.stop()
    assert (tmp_path / "order").read_text().split() == ["kwok", "apiserver", "etcd"]


def test_servers_die_with_their_parent(tmp_path: Path) -> None:
    script = f"""
        import time
        from pathlib import Path
        from hack.controlplane.processes import ServerProcesses
        running = ServerProcesses(Path({str(tmp_path)!r}), die_with_parent=True)
        running.spawn("sleep", Path("/bin/sleep"), ["60"], {{}})
        print(running.pids()[0][1], flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=MODULE.parents[1]) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        asleep = Path(f"/proc/{pid}/cmdline")
        api.eventually("the launcher became the server", lambda: asleep.read_bytes().startswith(b"/bin/sleep"))
        parent.kill()
    api.eventually("the server is gone", lambda: not processes.alive(pid), seconds=60)


def test_a_strangers_process_is_not_stopped(tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "60"], cwd="/") as stranger:
        processes.stop([("etcd", stranger.pid)], tmp_path)
        assert processes.alive(stranger.pid)
        stranger.kill()


def test_eventually_names_what_did_not_happen() -> None:
    with pytest.raises(ControlPlaneError, match=r"not within 0 s: snow \(last seen: 0\)"):
        api.eventually("snow", lambda: 0, seconds=0)


def test_a_node_is_ready_and_carries_its_labels() -> None:
    made = nodes.node("n1", {"example.com/rack": "r1"}, {"nvidia.com/gpu": "8"})
    assert made["metadata"]["labels"] == {
        "kubernetes.io/hostname": "n1",
        "kubernetes.io/os": "linux",
        "example.com/rack": "r1",
    }
    assert made["status"]["allocatable"] == {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
    assert [(item["type"], item["status"]) for item in made["status"]["conditions"]] == [("Ready", "True")]


def test_gates_are_parsed() -> None:
    assert commands.parse_gates("A=true,B=false") == {"A": True, "B": False}
    assert commands.parse_gates("") == {}
    with pytest.raises(typer.BadParameter, match="'A': must be NAME=true or NAME=false"):
        commands.parse_gates("A")


def test_down_says_where_no_cluster_runs(tmp_path: Path) -> None:
    with pytest.raises(ControlPlaneError, match=f"no cluster runs in {tmp_path}"):
        commands.down(tmp_path)


def test_up_refuses_a_folder_in_use(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(ControlPlaneError, match="a cluster runs there"):
        commands.up(tmp_path)
