"""What holds for all suites: their last lines, and how `make test` deals them out to its workers (pytest-xdist)."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conformance.summary import pytest_terminal_summary

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

__all__ = ["pytest_terminal_summary"]

HERE = Path(__file__).parent
STAGES = tuple(HERE / name for name in ("scenarios", "attacks", "integration", "e2e"))
"""Suites that start processes. A worker takes them first, so that no worker is left with a long one at the end."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """One worker runs all tests of a file, or of a group (`pytest.mark.xdist_group`), since they share what they start."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class ByFileOrGroup(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return str(super()._split_scope(nodeid)).partition("::")[0]

    return ByFileOrGroup(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if any(map(item.path.is_relative_to, STAGES)):
            item.add_marker(pytest.mark.stage)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("stage") is None)


def pytest_collection_finish() -> None:
    """What collection made lives as long as the tests: no later garbage collection has to walk through it again."""
    gc.collect()
    gc.freeze()
