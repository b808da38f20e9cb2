"""One run of the demo for the tests of this folder (embedded API server, its workers, our three processes for real), and the
two servers of the contract.
"""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass

import pytest
from rich.console import Console

from admission.cli.demo.demo import StoryResult, play
from admission.cli.demo.story import story
from tests.integration.contract import real_kubeconfig, server, widgets

__all__ = ["demo", "real_kubeconfig", "server", "widgets"]


@dataclass(frozen=True)
class Demo:
    """How the story went, and what was printed."""

    told: StoryResult
    printed: str


@pytest.fixture(scope="package")
def demo() -> Demo:
    out = io.StringIO()
    told = asyncio.run(play(Console(file=out, width=200), story(run_for="1s"), deadline=180))
    return Demo(told, out.getvalue())
