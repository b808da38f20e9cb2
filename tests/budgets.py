"""How many examples a property gets: few in `make test`, for which a developer waits, and many in `make test-long`.

Each number is set by what it yields (`python -m hack.property_yield`): CONTRIBUTING.md has the rule, tests/bench/RESULTS.md
the table.
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import settings

_LONG: Final = os.environ.get("STOWAGE_LONG") == "1"
_MORE: Final = 25
"""Times as many in `make test-long`."""
_USUAL: Final = 40
"""For a property that says nothing."""


def examples(quick: int) -> int:
    """So many in `make test`."""
    return quick * _MORE if _LONG else quick


def load_usual() -> None:
    """What holds for properties without settings. No deadline: whether a test passes must not depend on the machine's load."""
    settings.register_profile("stowage", max_examples=examples(_USUAL), deadline=None)
    settings.load_profile("stowage")
