"""How many examples a property gets: some in `make test`, a quarter of them in `make test-fast`, many in `make test-long`.

Each number is set by what it yields (`python -m hack.property_yield`): CONTRIBUTING.md has the rule.
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import settings

_LONG: Final = os.environ.get("STOWAGE_LONG") == "1"
_FAST: Final = os.environ.get("STOWAGE_FAST") == "1"
_MORE: Final = 25
"""Times as many in `make test-long`."""
_SHARE: Final = 4
_LEAST: Final = 3
"""In `make test-fast`: the first example of Hypothesis is the simplest one, and shows little."""
_USUAL: Final = 40
"""For a property that says nothing."""


def quick(budget: int) -> int:
    """So many, and fewer in `make test-fast`: for what has a longer form of its own in `make test-long`."""
    return max(budget // _SHARE, min(budget, _LEAST)) if _FAST else budget


def examples(budget: int) -> int:
    """So many in `make test`."""
    return budget * _MORE if _LONG else quick(budget)


def load_usual() -> None:
    """What holds for properties without settings. No deadline: whether a test passes must not depend on the machine's load."""
    settings.register_profile("stowage", max_examples=examples(_USUAL), deadline=None)
    settings.load_profile("stowage")
