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
    "kubernetes_asyncio",
    "matplotlib",
    "mcp",
    "multiprocessing",
    "opentelemetry.sdk",
    "requests",
    "rich",
    "typer",
    "admission.cli",
    "admission.dashboard",
    "admission.doctor",
    "admission.simulation",
    "api.embedded",
}
"""Packages that no process may load."""
UNNEEDED = {
    "webhook": NONE_OF_THEM | {"numpy", "admission.controllers", "admission.engine.topology", "admission.world"},
    "controller": NONE_OF_THEM | {"cryptography", "admission.webhook.server"},
    "ungater": NONE_OF_THEM | {"numpy", "cryptography", "admission"},
}
"""numpy takes 9 MiB of a process, cryptography 7 (the controller needs it only for the visibility API)."""


def loaded(modules: tuple[str, ...]) -> set[str]:
    program = f"import json, sys, {', '.join(modules)}; json.dump(list(sys.modules), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("process", PROCESSES)
def test_no_process_loads_what_it_does_not_need(process: str) -> None:
    assert UNNEEDED[process] & loaded(PROCESSES[process]) == set()
