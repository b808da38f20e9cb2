"""Garbage is collected in short passes, and what a process keeps is not looked at again. Each case is a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

_COMMON = """
import gc, time, weakref
from api.process import garbage

class Node:
    def __init__(self): self.other, self.load = None, [[] for _ in range(10)]

def cycle():
    a, b = Node(), Node()
    a.other, b.other = b, a
    return weakref.ref(a)

garbage._PERIOD = 0.0
kept = [[[number]] for number in range(400_000)]
"""
_CASES = {
    "what-is-kept-is-not-looked-at-again": """
garbage._LONG = 0.0
passes = garbage.Garbage()
passes.collect()
assert gc.get_freeze_count() > 800_000, gc.get_freeze_count()
""",
    "a-young-cycle-is-freed": """
passes = garbage.Garbage()
passes.collect()
found = cycle()
passes.collect()
assert found() is None
""",
    "python-makes-no-pass-over-everything": """
passes = garbage.Garbage()
gc.collect()
before = gc.get_stats()[2]["collections"]
more = [[[number]] for number in range(400_000)]
assert gc.get_stats()[2]["collections"] == before
""",
    "cycles-among-what-is-kept-go-once-the-process-has-grown": """
garbage._LONG, garbage._LOADED = 0.0, 0.0
resident = 100 << 20
garbage._resident = lambda: resident
passes = garbage.Garbage()
a, b = Node(), Node()
gone = weakref.ref(a)
passes.collect()
a.other, b.other = b, a
del a, b
passes.collect()
assert gone() is not None
resident = 300 << 20
passes.collect()
assert gone() is None
""",
}


@pytest.mark.stage
@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_collections(case: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _COMMON + case], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
