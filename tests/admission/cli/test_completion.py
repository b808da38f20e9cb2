"""Completion in shells, by what `stowage --install-completion` writes, and the names by which kubectl finds its plugin.

The shells themselves need not be installed: one is recognized by the name of its process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from typer.main import get_command

from admission.cli.main import app
from admission.cli.plugin import run

PROGRAM = Path(sys.executable).with_name("stowage")
BASH = {"COMP_WORDS": "stowage {words}", "COMP_CWORD": "{last}", "_STOWAGE_COMPLETE": "complete_bash"}
ZSH = {"_TYPER_COMPLETE_ARGS": "stowage {words}", "_STOWAGE_COMPLETE": "complete_zsh"}
FISH = {**ZSH, "_STOWAGE_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
SHELLS = {
    "bash": (".bash_completions/stowage.sh", BASH, "{word}\n"),
    "zsh": (".zfunc/_stowage", ZSH, '"{word}":'),
    "fish": (".config/fish/completions/stowage.fish", FISH, "{word}\t"),
}
"""By shell: the file below the home folder, what its script sets to ask for words, and how a word stands in the answer."""


@pytest.mark.stage
@pytest.mark.parametrize("shell", SHELLS)
def test_the_running_shell_gets_a_script_that_asks_stowage_for_words(shell: str, tmp_path: Path) -> None:
    file, asked, _ = SHELLS[shell]
    sh = tmp_path / shell
    sh.symlink_to(shutil.which("sh") or "sh")
    home = {**os.environ, "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)}
    line = f"{PROGRAM} --install-completion; true"  # not its last command, else the shell becomes it
    subprocess.run([sh, "-c", line], env=home, check=True, capture_output=True)
    script = (tmp_path / file).read_text()
    assert [name for name in asked if name not in script] == []
    assert f"_STOWAGE_COMPLETE={asked['_STOWAGE_COMPLETE']}" in script


@pytest.mark.parametrize(
    ("words", "expected", "other"),
    [
        pytest.param("ex", "explain", "demo", id="a command"),
        pytest.param("jobkind r", "rbac", "explain", id="a subcommand"),
        pytest.param("explain --sn", "--snapshot", "--context", id="an option"),
    ],
)
@pytest.mark.parametrize("shell", SHELLS)
def test_words_are_completed(
    shell: str,
    words: str,
    expected: str,
    other: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, asked, stands = SHELLS[shell]
    for name, value in asked.items():
        monkeypatch.setenv(name, value.format(words=words, last=len(words.split())))
    with pytest.raises(SystemExit):
        get_command(app).main([], prog_name="stowage", complete_var="_STOWAGE_COMPLETE")
    told = capsys.readouterr().out
    assert stands.format(word=expected) in told
    assert other not in told


@pytest.mark.stage
def test_bash_completes_a_word_by_the_script_itself() -> None:
    """Bash is recognized as the shell that runs; `complete -p` says which function completes the command."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash on this machine")
    line = """
        source <(stowage --show-completion)
        COMP_WORDS=(stowage ex) COMP_CWORD=1
        complete -p stowage | grep -q -- "-F _stowage_completion stowage" && _stowage_completion stowage
        echo "${COMPREPLY[@]}"
    """
    path = {**os.environ, "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([bash, "-c", line], env=path, capture_output=True, text=True, check=True)
    assert done.stdout == "explain\n"


def test_kubectl_finds_the_plugin_and_its_completion() -> None:
    """By its rule: `kubectl stowage` runs `kubectl-stowage`, and asks `kubectl_complete-stowage` for words."""
    scripts = entry_points(group="console_scripts").names
    for name in ("kubectl-stowage", "kubectl_complete-stowage"):
        assert name in scripts
        assert os.access(PROGRAM.with_name(name), os.X_OK)


def plugin(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    """The exit code of `kubectl stowage` with these words."""
    monkeypatch.setattr(sys, "argv", ["kubectl-stowage", *words])
    with pytest.raises(SystemExit) as ended:
        run()
    return ended.value.code


def test_the_plugin_calls_itself_as_it_is_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it prints to be typed again must be a command that its user has."""
    assert plugin(["explain", "--help"], monkeypatch) == 0
    assert "Usage: kubectl stowage explain" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--install-completion", "--show-completion"])
def test_the_plugin_leaves_the_completion_of_kubectl_alone(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script would be one for a command of two words, which replaces kubectl's own and fails."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert plugin([option], monkeypatch) == 2
    assert "No such option" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
