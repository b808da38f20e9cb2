"""The hook of commit messages refuses long subjects and private codes, and lets plain sentences pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hack.commit_message import LONGEST, main, problems

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "message",
    [
        "Count the time that pods have to end in promised starts\n",
        "Run on Kubernetes 1.36 and kwok 0.7\n\nThe kinds of 1.36 differ.\n",
        "Choose victims faster (kueue#13148)\n",
        "Take lists from API servers (v1beta1)\n",
        "Divide work in turns of 10 ms\n\n# Please enter the commit message\n# (20, 1)\n",
        "\n# a comment of git\nSay what is wrong\n",
        f"{'x' * LONGEST}\n",
        "Merge branch 'a-branch-whose-name-is-longer-than-a-subject-may-be-in-this-project'\n",
        'Revert "A subject that was long enough already before git put its own word in front of it"\n',
        "Say the matter\n# ------------------------ >8 ------------------------\ndiff --git a b\n",
    ],
)
def test_a_plain_subject_passes(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    ("message", "word"),
    [
        (f"{'x' * (LONGEST + 1)}\n", "73 characters"),
        ("Bound the book of nodes (20, 1)\n", "code"),
        ("Bound the book of nodes (21, must be shown 2)\n", "code"),
        ("Bound the book of nodes (20)\n", "code"),
        ("Bound the book of nodes (16, C: what is let through must bind)\n", "code"),
        ("Bound the book of nodes, B10\n", "code"),
        ("Mend issue 21\n", "code"),
        ("Mend #21\n", "code"),
        ("Bound the book of nodes.\n", "full stop"),
        ("Bound the book of nodes\nand the rest\n", "blank"),
        ("# nothing but a comment\n", "no subject"),
        ("", "no subject"),
    ],
)
def test_what_nobody_else_can_read_is_refused(message: str, word: str) -> None:
    assert [problem for problem in problems(message) if word in problem]


def test_the_hook_says_what_is_wrong_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text("Bound the book of nodes (20, 1)\n")
    assert main([str(message)]) == 1
    assert "say the matter" in capsys.readouterr().err
    message.write_text("Bound the book of nodes\n")
    assert main([str(message)]) == 0
    assert capsys.readouterr().err == ""


def test_pre_commit_runs_it_for_each_message() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    [hook] = [hook for repo in hooks["repos"] for hook in repo["hooks"] if hook["id"] == "commit-message"]
    assert hook["stages"] == ["commit-msg"]
    assert hook["entry"].endswith("-m hack.commit_message")
    assert {"pre-commit", "commit-msg"} <= set(hooks["default_install_hook_types"])
    others = [hook for repo in hooks["repos"] for hook in repo["hooks"] if hook["id"] != "commit-message"]
    assert hooks["default_stages"] == ["pre-commit"] or all(hook.get("stages") == ["pre-commit"] for hook in others)
