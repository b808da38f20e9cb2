"""Bounds the work of one evaluation of a CEL expression (api/cel/cel.py): both the expression and its object may be hostile.

A step is about a microsecond. Visiting an element costs one step, more if the expression for it is long. Comparing, searching,
copying and joining values costs steps by their size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MAX_STEPS: Final = 20_000
"""Most steps of one evaluation."""
TOKENS_PER_STEP: Final = 8
"""An element costs one step for this many tokens of the expression that is evaluated for it."""
_NODES_PER_STEP: Final = 4
_CHARACTERS_PER_NODE: Final = 64
_SHORT: Final = _CHARACTERS_PER_NODE * _NODES_PER_STEP


class CelError(Exception):
    """An expression does not parse, or its evaluation failed (for example on an absent field)."""


class CelWorkError(CelError):
    """An evaluation takes too many steps."""


class OutOfSteps(Exception):
    """Ends an evaluation at once. It is not a CelError, because the other side of `||` can make up for one."""


class EvaluationBudget:
    """The steps that are left. The scope of an evaluation holds it under this class as its key; several may share one."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._steps = self._left = steps

    def take(self, steps: int = 1) -> None:
        """Uses steps. Raises OutOfSteps if too few are left."""
        self._left -= steps
        if self._left < 0:
            raise OutOfSteps(f"takes more than {self._steps} steps")

    def take_for(self, value: Any) -> None:
        """Uses the steps for reading all of the value once. Raises OutOfSteps."""
        if isinstance(value, str):
            if len(value) >= _SHORT:
                self.take(len(value) // _SHORT)
        elif isinstance(value, Mapping | list | tuple):
            self.take(self._nodes(value, self._left * _NODES_PER_STEP) // _NODES_PER_STEP)

    def _nodes(self, value: Any, most: int) -> int:
        """Counts values inside the value. Raises OutOfSteps for more than `most`: lists may hold one list many times."""
        count, rest = 0, [value]
        while rest:
            one = rest.pop()
            count += 1 + (len(one) // _CHARACTERS_PER_NODE if isinstance(one, str) else 0)
            if count > most:
                self.take(self._steps + 1)
            if isinstance(one, Mapping):
                rest += one.values()
            elif isinstance(one, list | tuple):
                rest += one
        return count
