"""What `.ci/run` does with a test that fails: once more, alone; what passes then is listed, what fails twice fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from hack.repeat import LIST, MOST

ROOT = Path(__file__).resolve().parents[2]

STEADY = """
import pytest

def test_steady():
    pass

@pytest.mark.skip(reason="not here")
def test_skipped():
    pass
"""
FLAKY = """
import os
import pathlib

def first_time():
    mark = pathlib.Path(__file__).with_name("ran-once")
    there = mark.exists()
    mark.touch()
    return not there

def test_disturbed():
    assert not first_time(), "too late"
"""
ENDS_ITS_PROCESS = FLAKY.replace('assert not first_time(), "too late"', "first_time() and os._exit(3)")
FAILS_AT_ITS_END = FLAKY.replace(
    "def test_disturbed():\n    assert not first_time(), ",
    """
import pytest

@pytest.fixture
def closed():
    yield
    assert not first_time(), "not closed"

def test_disturbed(closed):
    assert True, """,
)
FALSE = """
import pathlib

def test_false():
    with pathlib.Path(__file__).with_name("runs").open("a") as file:
        file.write("x")
    assert 1 == 2
"""
ENDS_ITS_WORKER = """
import os

def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):
        os._exit(3)
"""
BROKEN = """
import pytest

@pytest.mark.parametrize("number", range(%d))
def test_false(number):
    assert number < 0
"""


class Run(NamedTuple):
    code: int
    lines: list[str]

    @property
    def flaky(self) -> list[str]:
        """The lines of the closing list."""
        return self.lines[self.lines.index("flaky:") + 1 : -1] if "flaky:" in self.lines else []


def repeat(folder: Path, files: dict[str, str], *options: str, flaky_list: Path | None = None) -> Run:
    """`python -m hack.repeat` over a suite of these files."""
    for name, text in files.items():
        (folder / name).write_text(text)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", LIST))}
    env |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if flaky_list is not None:
        env[LIST] = str(flaky_list)
    command = [sys.executable, "-m", "hack.repeat", "-q", "-p", "xdist", "-p", "no:cacheprovider", *options]
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, encoding="utf-8", check=False)
    return Run(run.returncode, run.stdout.splitlines())


@pytest.mark.stage
@pytest.mark.parametrize("options", [pytest.param([], id="one process"), pytest.param(["-n", "2"], id="two workers")])
@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(FLAKY, "AssertionError: too late", id="a test"),
        pytest.param(FAILS_AT_ITS_END, "AssertionError: not closed", id="what ends after a test"),
    ],
)
def test_what_passes_alone_does_not_fail_the_run_and_is_listed_with_its_first_error(
    tmp_path: Path, options: list[str], text: str, error: str
) -> None:
    run = repeat(tmp_path, {"test_steady.py": STEADY, "test_flaky.py": text}, *options)
    assert run.code == 0
    [line] = run.flaky
    assert line.startswith(f"  test_flaky.py::test_disturbed: {error}")
    assert re.search(r"\(test_flaky\.py:\d+\)$", line)
    assert re.fullmatch(r"2 passed, 0 failed, 1 skipped in [\d.]+s", run.lines[-1])


@pytest.mark.stage
def test_a_test_that_ends_its_worker_is_repeated(tmp_path: Path) -> None:
    run = repeat(tmp_path, {"test_steady.py": STEADY, "test_flaky.py": ENDS_ITS_PROCESS}, "-n", "2")
    assert run.code == 0
    assert "crashed while running 'test_flaky.py::test_disturbed'" in run.flaky[0]
    assert run.lines[-1].startswith("2 passed, 0 failed, 1 skipped")


@pytest.mark.stage
def test_what_fails_twice_fails_the_run_and_is_run_no_third_time(tmp_path: Path) -> None:
    run = repeat(tmp_path, {"test_steady.py": STEADY, "test_flaky.py": FLAKY, "test_false.py": FALSE}, "-n", "2")
    assert run.code == 1
    assert (tmp_path / "runs").read_text() == "xx"
    assert [line.split(":")[0] for line in run.flaky] == ["  test_flaky.py"]
    assert any(line.startswith("  | ") and "assert 1 == 2" in line for line in run.lines)
    assert run.lines[-1].startswith("2 passed, 1 failed, 1 skipped")


@pytest.mark.stage
@pytest.mark.parametrize(
    ("files", "options", "code", "why"),
    [
        pytest.param({"test_false.py": BROKEN % MOST}, [], 1, f"{MOST + 1} tests failed", id="many tests fail"),
        pytest.param({"test_text.py": "import nowhere"}, [], 2, "cannot be collected", id="a file is broken"),
        pytest.param({"test_text.py": "import nowhere"}, ["-n", "2"], 1, "cannot be collected", id="a file is broken, workers"),
        pytest.param({}, ["-k", "nothing"], 5, "pytest ended with 5", id="no test"),
        pytest.param({}, ["--unheard-of"], 4, "pytest ended with 4", id="a wrong option"),
        pytest.param({"conftest.py": ENDS_ITS_WORKER}, ["-n", "2"], 1, "worker crashed", id="a worker ends after its tests"),
    ],
)  # fmt: skip
def test_a_broken_run_fails_and_repeats_nothing(
    tmp_path: Path, files: dict[str, str], options: list[str], code: int, why: str
) -> None:
    run = repeat(tmp_path, {"test_steady.py": STEADY, "test_flaky.py": FLAKY} | files, *options)
    assert run.code == code
    assert not any(line.startswith("repeating") for line in run.lines)
    assert run.flaky == []
    assert any(line.startswith("nothing is repeated: ") and why in line for line in run.lines)


@pytest.mark.stage
def test_a_later_run_lists_what_was_flaky_in_an_earlier_run(tmp_path: Path) -> None:
    first, later = tmp_path / "first", tmp_path / "later"
    first.mkdir()
    later.mkdir()
    repeat(first, {"test_flaky.py": FLAKY}, flaky_list=tmp_path / "list")
    run = repeat(later, {"test_steady.py": STEADY}, flaky_list=tmp_path / "list")
    assert run.code == 0
    assert [line.split(":")[0] for line in run.flaky] == ["  test_flaky.py"]
    assert run.lines[-1].startswith("1 passed, 0 failed, 1 skipped")


@pytest.mark.stage
def test_a_run_in_which_all_passes_ends_as_pytest_ends_it(tmp_path: Path) -> None:
    run = repeat(tmp_path, {"test_steady.py": STEADY}, flaky_list=tmp_path / "list")
    assert run.code == 0
    assert "flaky:" not in run.lines
    assert re.fullmatch(r"1 passed, 1 skipped in [\d.]+s", run.lines[-1])
