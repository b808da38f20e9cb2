"""Finds suite files, cases, gates and the handler of a suite. Decides nothing about any case; `test_suites` calls it.

A suite file is `<suite>.json` in the folder that $STOWAGE_CONFORMANCE names (default: `../shared/conformance` beside
the project): a JSON array of cases (`name`, `input`, `want`, `featureGates`, ...). Its handler is
`tests/conformance/suites/<suite>.py`. Files of the folder `next` have further cases of the same suites; a suite of the folder
`more` is read once it has a handler.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
from collections.abc import Callable, Coroutine, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

Case = dict[str, Any]
Handler = Callable[[Case], Coroutine[Any, Any, None] | None]

PROJECT = Path(__file__).resolve().parents[2]
SUITES = Path(__file__).parent / "suites"
GATE_DEFAULTS = "feature_gate_defaults"


def folder() -> Path:
    """Where the suite files are looked for."""
    return Path(os.environ.get("STOWAGE_CONFORMANCE") or PROJECT.parent / "shared" / "conformance")


class StoredCase:
    """A case as its file has it. Only a test that runs reads it: all of them are 9 MB, and every worker collects all."""

    class _Name(msgspec.Struct):
        name: str

    def __init__(self, text: msgspec.Raw) -> None:
        self.name = msgspec.json.decode(text, type=self._Name).name
        self._text = text

    def read(self) -> Case:
        """The case, a new one each time."""
        case: Case = msgspec.json.decode(self._text)
        return case


@cache
def suites() -> dict[str, list[StoredCase]]:
    """All cases by suite; empty where the folder is absent."""
    found: dict[str, list[StoredCase]] = {}
    more = [file for file in sorted(folder().glob("more/*.json")) if (SUITES / f"{file.stem}.py").is_file()]
    for file in (*sorted(folder().glob("*.json")), *sorted(folder().glob("next/*.json")), *more):
        if file.stem != GATE_DEFAULTS:
            cases = msgspec.json.decode(file.read_bytes(), type=list[msgspec.Raw])
            found.setdefault(file.stem, []).extend(map(StoredCase, cases))
    return found


@cache
def gate_defaults() -> dict[str, bool]:
    """The default of every gate."""
    defaults: dict[str, bool] = msgspec.json.decode((folder() / f"{GATE_DEFAULTS}.json").read_bytes())
    return defaults


def gates(case: Case) -> dict[str, bool]:
    """The effective value of every gate while the case ran."""
    return {**gate_defaults(), **(case.get("featureGates") or {})}


def scenarios(case: Case) -> Iterator[Case]:
    """The case itself, then once more for each further gate combination, with what is wanted under it."""
    yield case
    for other in case.get("otherScenarios") or ():
        want = {**case["want"], **(other.get("want") or {})}
        yield {**case, "featureGates": other["featureGates"], "want": want, "otherScenarios": []}


def handler(suite: str) -> Handler | None:
    """The suite's `run`, or None where no module of that name exists. An import error is the suite's failure."""
    if not (SUITES / f"{suite}.py").is_file():
        return None
    run: Handler = importlib.import_module(f"tests.conformance.suites.{suite}").run
    return run


def run(suite: str, case: Case) -> bool:
    """Run one case; False where the suite has no handler. Raises what the handler raises."""
    check = handler(suite)
    if check is None:
        return False
    outcome = check(case)
    if inspect.iscoroutine(outcome):
        asyncio.run(outcome)
    return True
