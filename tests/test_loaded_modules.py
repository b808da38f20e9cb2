"""What each process loads: a large library that it does not need would stay in its memory for as long as it runs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROCESSES = {
    "webhook": ("admission.__main__", "admission.webhook.app"),
    "controller": ("admission.__main__", "admission.app"),
    "ungater": ("ungater.app",),
}
NONE_OF_THEM = {
    "kubernetes_asyncio": 35,
    "matplotlib": 30,
    "mcp": 40,
    "rich": 6,
    "typer": 4,
    "opentelemetry.sdk": 8,
    "requests": 8,
    "multiprocessing": 1,
}
"""Packages that no process may load, with their share of the memory in MiB."""


def loaded(modules: tuple[str, ...]) -> set[str]:
    program = f"import json, sys, {', '.join(modules)}; json.dump(list(sys.modules), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("process", PROCESSES)
def test_no_process_loads_what_it_does_not_need(process: str) -> None:
    assert NONE_OF_THEM.keys() & loaded(PROCESSES[process]) == set()
