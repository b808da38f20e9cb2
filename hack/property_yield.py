"""`python -m hack.property_yield [--times N] [--seeds N] PATH...`: what more examples of a property cover, as a Markdown table.

Runs each property of `make test` in the tests given with N times its examples, once for each seed, and counts the branches of
the product that are covered after each example. Beyond the last example that covers a new one, more examples only try other
values on the same paths: `make test-long` does that. Examples that Hypothesis rejects do not count, as they do not in a budget.

The module is also the pytest plugin that counts, in a process for each seed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any, Final

import coverage
import pytest
from hypothesis import Phase, settings
from hypothesis.internal.conjecture.data import ConjectureData, Status
from hypothesis.internal.conjecture.engine import ConjectureRunner

_ROOT: Final = Path(__file__).resolve().parents[1]
_PRODUCT: Final = [str(_ROOT / package / "*") for package in ("admission", "api", "ungater")]
_SHARES: Final = (0.25, 0.5, 1, 2, 4)
"""Of the budget: the columns of the table."""
_INTO: Final = "STOWAGE_YIELD_INTO"
_TIMES: Final = "STOWAGE_YIELD_TIMES"


@dataclass
class Yield:
    """What one run of a property covered: `rises` has each example that covered more, with the branches covered by then."""

    budget: int = 0
    examples: int = 0
    seconds: float = 0.0
    rises: list[tuple[int, int]] = field(default_factory=list)

    def covered(self, examples: float) -> int:
        """Branches covered by so many examples."""
        return max((branches for example, branches in self.rises if example <= max(examples, 1)), default=0)

    @property
    def last_new(self) -> int:
        """The last example that covered a branch that none before it had."""
        return max((example for example, _ in self.rises), default=0)


class _Counter:
    """Counts for the test that runs now. Hypothesis has no public hook that is called for each of more examples than a test
    asks for.
    """

    def __init__(self, times: int) -> None:
        self.found: dict[str, Yield] = {}
        self._times = times
        self._now: Yield | None = None
        self._coverage: coverage.Coverage | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        self._now = Yield()
        self._coverage = measured = coverage.Coverage(data_file=None, branch=True, include=_PRODUCT)
        measured.set_option("run:core", "ctrace")
        measured.start()
        started = time.process_time()
        try:
            return (yield)
        finally:
            measured.stop()
            self._now.seconds = time.process_time() - started
            if self._now.budget:
                self.found[item.nodeid] = self._now

    def begin(self, runner: ConjectureRunner) -> None:
        """Gives the runner more examples, drawn at random by the seed alone."""
        if self._now is None:
            return
        self._now.budget = runner.settings.max_examples
        more = self._times * self._now.budget
        runner.settings = settings(runner.settings, max_examples=more, phases=[Phase.generate], database=None)

    def ran(self, data: ConjectureData) -> None:
        """Notes what an example covered."""
        now = self._now
        if now is None or data.status < Status.VALID:
            return
        now.examples += 1
        collector = getattr(self._coverage, "_collector", None)
        branches = sum(map(len, collector.data.values())) if collector is not None else 0
        if branches > now.covered(now.examples):
            now.rises.append((now.examples, branches))


def pytest_configure(config: pytest.Config) -> None:
    """The plugin begins: in a process that `main` has started."""
    counter = _Counter(int(os.environ[_TIMES]))
    config.pluginmanager.register(counter, "stowage-yield")
    config.add_cleanup(lambda: _write(counter.found, Path(os.environ[_INTO])))
    begin, run = ConjectureRunner.__init__, ConjectureRunner.test_function

    def begins(self: ConjectureRunner, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        counter.begin(self)

    def runs(self: ConjectureRunner, data: ConjectureData) -> None:
        run(self, data)
        counter.ran(data)

    setattr(ConjectureRunner, "__init__", begins)  # noqa: B010 - mypy refuses an assignment to a method
    setattr(ConjectureRunner, "test_function", runs)  # noqa: B010


def _write(yields: dict[str, Yield], into: Path) -> None:
    into.write_text(json.dumps({name: asdict(each) for name, each in yields.items()}))


def measure(paths: Iterable[str], times: int, seed: int) -> dict[str, Yield]:
    """The yield of each property, by node id. Raises CalledProcessError if tests fail."""
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "yield.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "hack.property_yield", f"--hypothesis-seed={seed}"]
        only = ["-m", "not e2e and not long and not stage"]
        environment = {**os.environ, _INTO: str(into), _TIMES: str(times)}
        subprocess.run([*command, *only, *paths], check=True, cwd=_ROOT, env=environment, stdout=sys.stderr)
        return {name: Yield(**each) for name, each in json.loads(into.read_text()).items()}


def table(runs: list[dict[str, Yield]], times: int) -> str:
    """A row for each property: branches by share of its budget, mean over the seeds, and the last new example of each seed."""
    shares = [share for share in _SHARES if share <= times]
    heads = ["property", "budget", *(f"{share:g}x" for share in shares), "last new, by seed", "of", "ms"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name in runs[0]:
        each = [run[name] for run in runs]
        budget = each[0].budget
        covered = [f"{mean(one.covered(share * budget) for one in each):.0f}" for share in shares]
        last = ", ".join(str(one.last_new) for one in each)
        cost = 1000 * sum(one.seconds for one in each) / max(1, sum(one.examples for one in each))
        cells = [_short(name), str(budget), *covered, last, str(each[0].examples), f"{cost:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _short(name: str) -> str:
    file, _, test = name.partition("::")
    return f"{Path(file).stem.removeprefix('test_')}: {test.removeprefix('test_')}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--times", type=int, default=4, help="examples, as a multiple of the budget")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    print(table([measure(arguments.paths, arguments.times, seed) for seed in range(arguments.seeds)], arguments.times))


if __name__ == "__main__":
    main()
