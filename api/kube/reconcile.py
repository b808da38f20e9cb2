"""A keyed queue with workers. (Signatures; the body follows.)"""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class Reconciler:
    """One worker a key at a time; dedup; per-key exponential backoff; a returned float requeues after seconds."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[str], Awaitable[float | None]],
        *,
        workers: int = 4,
        base_delay: float = 0.05,
        max_delay: float = 60.0,
    ) -> None:
        raise NotImplementedError

    def add(self, key: str) -> None:
        """Now; an addition planned for later is dropped (earliest wins)."""
        raise NotImplementedError

    def add_after(self, key: str, seconds: float) -> None:
        """Later; of several the earliest wins."""
        raise NotImplementedError

    async def run(self) -> None:
        """Until cancelled."""
        raise NotImplementedError
