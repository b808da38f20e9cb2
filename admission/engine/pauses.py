"""The pause of a long computation: it calls `pause()` often, and a caller that shares the event loop lets others run there
(controllers/report/turns.py)."""

from __future__ import annotations

from collections.abc import Callable

Around = Callable[[Callable[[], None], Callable[[], None]], Callable[[], None]]
"""Makes a pause from `leave` and `enter`, which are called before others run and afterwards (controllers/report/turns.py)."""


def no_pause() -> None:
    """Goes on without a pause."""


def no_pause_around(_leave: Callable[[], None], _enter: Callable[[], None]) -> Callable[[], None]:
    """As `no_pause`."""
    return no_pause
