"""When the next cycle is due: at once, or a moment later together with what follows.

A cycle without a head decides nothing, and only releases and renews what is held. Each pod that is bound or ends can require
one, so that a gang's start would cost as many cycles as it has pods.
"""

from __future__ import annotations

import asyncio
from typing import Final

_MOMENT: Final = 0.2
"""Seconds for which a cycle without a head may wait: short beside the time that a pod takes to start."""


class CycleDue(asyncio.Event):
    """Set when a cycle is due."""

    def __init__(self) -> None:
        super().__init__()
        self._later: asyncio.TimerHandle | None = None

    @property
    def is_expected(self) -> bool:
        """Reports whether a cycle is due now or within a moment."""
        return self.is_set() or self._later is not None

    def set(self) -> None:
        """Makes a cycle due now."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        super().set()

    def set_soon(self) -> None:
        """Makes a cycle due within a moment."""
        if not self.is_expected:
            self._later = asyncio.get_running_loop().call_later(_MOMENT, self.set)
