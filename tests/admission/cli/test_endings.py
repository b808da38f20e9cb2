"""How the commands end where a user errs or gives up: the exit code, and one line that says what was wrong."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from admission.cli import simulate
from admission.cli.main import app
from tests.admission.world.world_documents import job, queue, tree, written

_PATIENCE = 120.0
COMMANDS = ("demo", "simulate", "snapshot", "explain")
NO_CLUSTER = "no cluster: --kubeconfig, KUBECONFIG and ~/.kube/config name no kubeconfig, and this is not a pod"
DEAD = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: x}}]
contexts: [{name: k, context: {cluster: c, user: u}}]
current-context: k
"""


def stowage(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user without any cluster."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "STOWAGE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_each_does_and_its_options(command: str) -> None:
    done = stowage(command, "--help")
    assert done.exit_code == 0
    assert "Usage:" in done.stdout
    assert command in stowage("--help").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["simulate", "--nosuch"],
        ["explain"],
        ["snapshot"],
        ["demo", "--deadline", "0"],
        ["simulate", "--until", "-5"],
        [],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_ends_with_2(arguments: list[str]) -> None:
    assert stowage(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(["explain", "a/b"], f"cannot explain: {NO_CLUSTER}", id="explain"),
        pytest.param(["snapshot", "-o", "x.json"], f"no snapshot: {NO_CLUSTER}", id="snapshot"),
        pytest.param(["simulate", "--with", "{site}"], f"cannot simulate: {NO_CLUSTER}", id="simulate"),
        pytest.param(
            ["explain", "a/b", "--kubeconfig", "{folder}/none"],
            "cannot explain: no cluster: {folder}/none: No such file or directory",
            id="no kubeconfig",
        ),
        pytest.param(
            ["explain", "a/b", "--kubeconfig", "{folder}/dead", "--context", "x"],
            "cannot explain: no cluster: {folder}/dead: context: 'x': must be the name of one of the contexts: k",
            id="no context",
        ),
        pytest.param(
            ["explain", "a/b", "--kubeconfig", "{folder}/dead"],
            "cannot explain: the cluster does not answer: ",
            id="a cluster that does not answer",
        ),
        pytest.param(
            ["simulate", "--with", "{folder}/none.yaml", "--kubeconfig", "{folder}/dead"],
            "cannot simulate: {folder}/none.yaml: No such file or directory",
            id="the file is looked at before the cluster",
        ),
        pytest.param(
            ["simulate", "{site}", "--picture", "{folder}/no/where.svg"],
            "cannot simulate: {folder}/no/where.svg: No such file or directory",
            id="a picture that cannot be written",
        ),
        pytest.param(
            ["explain", "a/b", "--snapshot", "{folder}/binary"],
            "cannot explain: {folder}/binary: neither YAML nor JSON",
            id="no text",
        ),
    ],
)
def test_an_error_is_one_line(nowhere: Path, arguments: list[str], line: str) -> None:
    site = written(nowhere / "site.yaml", tree(), queue(), job("a"))
    (nowhere / "dead").write_text(DEAD)
    (nowhere / "binary").write_bytes(b"\x00\xff")
    done = stowage(*(argument.format(folder=nowhere, site=site) for argument in arguments))
    assert (done.exit_code, done.stdout) == (2, "")
    (told,) = done.stderr.splitlines()
    assert told.startswith(line.format(folder=nowhere))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("placement: {profile: Best}", "settings: placement.profile: 'Best': ", id="no such profile"),
        pytest.param("odd: 1", "settings: odd: 1: ", id="no such setting"),
    ],
)
def test_settings_that_cannot_be(nowhere: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: str) -> None:
    (nowhere / "settings.yaml").write_text(text)
    monkeypatch.setenv("STOWAGE_CONFIG", str(nowhere / "settings.yaml"))
    done = stowage("simulate", written(nowhere / "site.yaml", tree(), queue(), job("a")))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(line)


def test_ctrl_c_ends_with_the_code_of_a_signal(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate, "simulate_with", pressed)
    done = stowage("simulate", written(nowhere / "site.yaml", tree(), queue(), job("a")))
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Children hear Ctrl-C, also where these tests run in the background, which ignores it: what is caught is not inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_in_a_process_of_its_own(nowhere: Path) -> None:
    """While it reads what never comes."""
    command = [sys.executable, "-m", "admission.cli", "simulate", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stderr is not None
        child.stdin.write("kind: [\n")
        child.stdin.flush()
        deadline = time.monotonic() + _PATIENCE
        while not _reads(child.pid):
            assert child.poll() is None
            assert time.monotonic() < deadline, "it never reads"
            time.sleep(0.05)  # the child needs the processor
        child.send_signal(signal.SIGINT)
        assert child.wait(_PATIENCE) == 130
        assert child.stderr.read() == "interrupted\n"


def _reads(pid: int) -> bool:
    """Whether it waits for its standard input."""
    return Path(f"/proc/{pid}/wchan").read_text() in ("pipe_read", "anon_pipe_read")
