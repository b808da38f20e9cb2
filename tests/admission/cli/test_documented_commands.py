"""The console blocks of the pages, which a reader can type as they stand, print what the page says."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from admission.cli.main import app

PROJECT = Path(__file__).resolve().parents[3]
PAGES = ("explain", "exact", "moves")
TEXT = "\n".join((PROJECT / "docs" / f"{page}.md").read_text() for page in PAGES)
BLOCKS = re.findall(r"^```\n(\$ stowage .*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def expanded(word: str) -> Iterator[str]:
    """The words that bash makes of one with braces."""
    parts = re.split(r"\{([^}]*)\}", word)
    yield from map("".join, itertools.product(*(p.split(",") if n % 2 else [p] for n, p in enumerate(parts))))


def run(line: str) -> str:
    """The output of a command, without blanks at the ends of lines."""
    done = CliRunner().invoke(app, [each for word in shlex.split(line)[1:] for each in expanded(word)])
    assert done.exit_code == 0, done.output
    return "\n".join(text.rstrip() for text in done.output.splitlines()).strip()


def test_braces() -> None:
    assert list(expanded("a/{b,c}.yaml")) == ["a/b.yaml", "a/c.yaml"]
    assert list(expanded("plain")) == ["plain"]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: " ".join(block.split()[1:3]))
def test_commands_print_what_the_page_shows(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, because a command writes a file there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").symlink_to(PROJECT / "config")
    for step in block.split("$ ")[1:]:
        line, _, shown = step.partition("\n")
        assert run(line) == "\n".join(text.rstrip() for text in shown.splitlines()).strip()


def test_the_pages_have_such_blocks() -> None:
    assert len(BLOCKS) == 6


def test_the_first_commands_of_the_readme_print_what_its_first_screen_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").symlink_to(PROJECT / "config")
    readme = (PROJECT / "README.md").read_text()
    typed = re.findall(r"^\.venv/bin/(stowage (?:snapshot|explain) .*?)(?: +#.*)?$", readme, re.MULTILINE)
    printed = [line for command in typed for line in run(command).splitlines()]
    shown = readme.partition("\n```\n$ stowage explain")[2].partition("\n```")[0].splitlines()[1:]
    assert len(typed) == 2
    assert [line for line in shown if line != "..." and line not in printed] == []


SAMPLES = PROJECT / "config" / "samples"
SITE = [SAMPLES / f"{name}.yaml" for name in ("flavor-levels", "topology", "queue", "simulation/nodes")]
NO_JOB = {
    "admission-check",
    "advance-reservation",
    "elastic-quota",
    "flavor-spare-hosts",
    "job-kind",
    "kustomization",
    "queue-by-usage",
    "scaled-kind",
    "tenants",
    "topology-defragment",
}
CANNOT_BE_SIMULATED = {
    "by-pods": "only the controllers of these kinds know their pods",
    "job-volume": "it names a StorageClass of the reader's cluster",
    "sakkara-group": "it needs the tree of sakkara-topology, which names nodes of the reader's cluster",
}
STARTING = [
    file
    for file in sorted(SAMPLES.glob("*.yaml"))
    if file not in SITE and file.stem not in {*NO_JOB, *CANNOT_BE_SIMULATED, "sakkara-topology"}
]


@pytest.mark.parametrize("sample", STARTING, ids=lambda file: file.stem)
def test_each_sample_starts_with_the_queues_and_nodes_of_the_samples(sample: Path) -> None:
    """Not only accepted: job-spare-host once needed a topology that its queue did not have, and waited forever."""
    done = CliRunner().invoke(app, ["simulate", "--json", *map(str, (*SITE, sample))])
    assert done.exit_code == 0, done.output
    jobs = json.loads(done.stdout)["workloads"]
    assert jobs
    assert [each for each in jobs if each["admitted"] is None] == []


def test_the_job_of_the_readme_starts(tmp_path: Path) -> None:
    """With its flavor and queues, on four hosts of a rack."""
    text = (PROJECT / "README.md").read_text()
    (tmp_path / "readme.yaml").write_text(
        "---\n".join(re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    )
    nodes = (SAMPLES / "simulation" / "nodes.yaml").read_text()
    nodes = nodes.replace("node-group: tas", "node-group: gpu").replace('cpu: "8"', 'cpu: "32", nvidia.com/gpu: "8"')
    (tmp_path / "nodes.yaml").write_text(nodes)
    done = CliRunner().invoke(app, ["simulate", "--json", str(tmp_path)])
    (job,) = json.loads(done.stdout)["workloads"]
    assert (job["job"], job["pods"], job["admitted"]) == ("Job default/train", 16, 0)


def test_the_job_kind_of_the_page_reads_its_crane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/job-kinds.md shows the sample as it is, an object of the kind, and the first lines of the command's output."""
    page = (PROJECT / "docs" / "job-kinds.md").read_text()
    crane, kind = re.findall(r"^ *```yaml\n(.*?)^ *```", page, re.DOTALL | re.MULTILINE)[:2]
    assert textwrap.dedent(kind) in (SAMPLES / "job-kind.yaml").read_text()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").symlink_to(PROJECT / "config")
    (tmp_path / "crane.yaml").write_text(crane)
    (block,) = re.findall(r"^    \$ (stowage jobkind test .*?)^    \.\.\.$", page, re.DOTALL | re.MULTILINE)
    line, _, shown = block.partition("\n")
    assert run(line).startswith(textwrap.dedent(shown).rstrip())
