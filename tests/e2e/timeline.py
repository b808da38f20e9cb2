"""Scrapes of running processes as an hour of Prometheus, for promtool: health for half an hour, then a fault that lasts.

Two scrapes of a healthy installation and one during a fault make three points. The timeline repeats what happened between two
of them each minute: counters grow by their difference, gauges keep their last value. Times of a last event move on while there
are any.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

HEALTHY: Final = 30
"""Minutes of health; the fault begins then."""
END: Final = 100
_JOB: Final = "stowage-metrics"

Series = tuple[str, tuple[tuple[str, str], ...]]
"""Name and labels."""


@dataclass(frozen=True)
class Scrape:
    """What one process answered, by series, and which of these only grow. `at` is its time in epoch seconds."""

    values: Mapping[Series, float]
    growing: frozenset[Series]
    at: float

    @classmethod
    def of(cls, text: str, at: float) -> Scrape:
        values: dict[Series, float] = {}
        growing: set[Series] = set()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = sample.name, tuple(sorted(sample.labels.items()))
                values[key] = sample.value
                if family.type in ("counter", "histogram") and not sample.name.endswith("_created"):
                    growing.add(key)
        return cls(values, frozenset(growing), at)


Scrapes = Mapping[str, Scrape | None]
"""By process; None where it does not answer."""


def input_series(first: Scrapes, second: Scrapes, during: Scrapes) -> list[dict[str, str]]:
    """The series of all processes as promtool reads them, one value a minute."""
    found: list[dict[str, str]] = []
    for process in first:
        was, healthy, faulty = first[process], second[process], during[process]
        assert was is not None
        assert healthy is not None
        own = {"job": _JOB, "app_kubernetes_io_component": process, "pod": f"stowage-{process}-0"}
        own |= {"namespace": "stowage-system"}
        found.append(_row(("up", ()), own, [1.0] * HEALTHY + [0.0 if faulty is None else 1.0] * (END - HEALTHY)))
        keys = sorted(healthy.values.keys() | (faulty.values.keys() if faulty else set()))
        found += [_row(key, own, _values(key, was, healthy, faulty)) for key in keys]
    return found


def _values(key: Series, was: Scrape, healthy: Scrape, faulty: Scrape | None) -> list[float | None]:
    grows = key in healthy.growing or (faulty is not None and key in faulty.growing)
    now, before = healthy.values.get(key), was.values.get(key, 0.0)
    then = faulty.values.get(key) if faulty is not None else None
    if key[0].endswith("_timestamp_seconds"):
        return _times(now, then, healthy, faulty)
    if now is None:
        start: list[float | None] = [None] * HEALTHY
    else:
        start = [now + (minute * max(0.0, now - before) if grows else 0.0) for minute in range(HEALTHY)]
    if then is None:
        return start + [None] * (END - HEALTHY)
    last = start[-1] or 0.0
    step = max(0.0, then - (now or 0.0)) if grows else 0.0
    return start + [last + (minute + 1) * step if grows else then for minute in range(END - HEALTHY)]


def _times(now: float | None, then: float | None, healthy: Scrape, faulty: Scrape | None) -> list[float | None]:
    """A time in the past; promtool's clock begins at 0. It moves on as long as it does between two scrapes."""
    if not now:
        return [now] * END
    age = min(60.0, healthy.at - now)
    if faulty is None or then is None:
        return [max(1.0, 60.0 * minute - age) for minute in range(HEALTHY)] + [None] * (END - HEALTHY)
    heard = then > now or faulty.at == healthy.at
    return [max(1.0, 60.0 * (minute if minute < HEALTHY or heard else HEALTHY) - age) for minute in range(END)]


def _row(key: Series, own: Mapping[str, str], values: Sequence[float | None]) -> dict[str, str]:
    name, labels = key
    text = ", ".join(f"{label}={_quoted(value)}" for label, value in sorted({**own, **dict(labels)}.items()))
    return {"series": f"{name}{{{text}}}", "values": " ".join(_spelled(values))}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _spelled(values: Iterable[float | None]) -> Iterable[str]:
    """Equal values in a row as `5x3`, four fives; but `_x3` are three gaps."""
    run: tuple[float | None, int] | None = None
    for value in [*values, math.nan]:
        if run is not None and (value == run[0]):
            run = (run[0], run[1] + 1)
            continue
        if run is not None:
            value_text, count = ("_", run[1]) if run[0] is None else (repr(run[0]), run[1] - 1)
            yield f"{value_text}x{count}" if count and run[1] > 1 else value_text
        run = (value, 1)


class Promtool:
    """Prometheus' own checker, with rules in a folder."""

    def __init__(self, program: Path, folder: Path, rules: Path) -> None:
        self._program, self._folder = program, folder
        (folder / "rules.yaml").write_text(yaml.safe_dump(yaml.safe_load(rules.read_text())["spec"]))

    def check_rules(self) -> str:
        return self._run("check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")

    def check_metrics(self, text: str) -> subprocess.CompletedProcess[str]:
        """What it finds wrong with a scrape."""
        command: list[str | Path] = [self._program, "check", "metrics"]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)

    def failures(self, name: str, series: list[dict[str, str]], questions: list[dict[str, Any]]) -> str:
        """What it says where an answer is not as expected; empty if all are. Each question is one of a promql_expr_test."""
        test = {"interval": "1m", "promql_expr_test": questions}
        named = set(re.findall(r"[a-z][a-z_]+", (self._folder / "rules.yaml").read_text() + json.dumps(questions)))
        test["input_series"] = [each for each in series if each["series"].partition("{")[0] in named]
        content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
        (self._folder / f"{name}.yaml").write_text(json.dumps(content))
        command: list[str | Path] = [self._program, "test", "rules", f"{name}.yaml"]
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, timeout=300, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def _run(self, *args: str) -> str:
        done = subprocess.run(
            [self._program, *args], cwd=self._folder, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def firing(minute: int, *alerts: str) -> dict[str, Any]:
    """The question which alerts fire at this minute, and its answer."""
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)]
    expression = 'group by (alertname) (ALERTS{alertstate="firing"})'
    return {"expr": expression, "eval_time": f"{minute}m", "exp_samples": samples}


def answered(expression: str, minute: int) -> dict[str, Any]:
    """The question whether the expression has an answer of at least one series at this minute."""
    return {
        "expr": f"count({expression}) >= bool 1",
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": "{}", "value": 1}],
    }
