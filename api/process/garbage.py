"""Collects reference cycles in passes that are short however many objects the process keeps.

A pass over all objects holds the loop for as long as it takes to touch each of them. So Python starts none by itself; `collect`
makes a pass over what has come since the last one, and takes what survived a long pass out of all later ones (gc.freeze).
Reference counts still free those objects; only a cycle that forms among them afterwards stays. Such cycles are few, and
`collect` looks at everything once the process has grown by half since it was loaded, which bounds what they keep and may hold
the loop for a second beside a very large cluster. lag.py calls it at each turn.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from pathlib import Path
from typing import Any, Final

from api.kube import metrics

log = logging.getLogger(__name__)

_THRESHOLDS: Final = (5_000, 4, 1 << 30)
"""Decoding allocates fast and leaves few cycles: with Python's default thresholds (700, 10, 10) a ninth of the controller's CPU
time went into garbage collection. Where all that is young is garbage, as after many errors, 20,000 objects take 30 ms: Python's
pass over the second generation sees no more. The last threshold is out of reach: Python would look at every object.
"""
_PASSES: Final = 2
"""Passes of Python over its second generation after which one is due."""
_LONG: Final = 0.015
"""CPU seconds of a pass after which its survivors are not looked at again."""
_PERIOD: Final = 10.0
"""Seconds between passes at the latest. Connections that fail before TLS leave cycles, too few for Python to collect soon."""
_LOADED: Final = 600.0
"""Seconds after the start at which the process is taken to have listed its cluster: until then all growth is wanted."""
_GROWTH, _SPARE = 1.5, 64 << 20
"""A pass over everything is due once the process takes this many times what it took then or after the last one, and bytes more.
"""


class Garbage:
    """The collections of this process, of which there is one."""

    def __init__(self) -> None:
        self._due = time.monotonic() + _PERIOD
        self._loaded = time.monotonic() + _LOADED
        self._resident: int | None = None
        self._began = 0.0
        gc.freeze()  # what was imported stays, and a pass over it takes longer than all else of a small process
        gc.set_threshold(*_THRESHOLDS)
        gc.callbacks.append(self._measure)

    def close(self) -> None:
        """Stops measuring."""
        gc.callbacks.remove(self._measure)

    def collect(self) -> None:
        """Makes a pass if one is due: some time has passed, or Python has collected its second generation some times."""
        now = time.monotonic()
        if gc.get_count()[2] < _PASSES and now < self._due:
            return
        self._due = now + _PERIOD
        began = time.thread_time()
        gc.collect()
        if time.thread_time() - began > _LONG:
            gc.freeze()
        if self._has_grown(now):
            self._collect_everything()

    def _has_grown(self, now: float) -> bool:
        if self._resident is None and now > self._loaded:
            self._resident = _resident()
        return self._resident is not None and _resident() > self._resident * _GROWTH + _SPARE

    def _collect_everything(self) -> None:
        began = time.thread_time()
        gc.unfreeze()
        count = gc.collect()
        gc.freeze()
        self._resident = _resident()
        facts = {"cpu_seconds": round(time.thread_time() - began, 3), "objects": count, "mib": self._resident >> 20}
        log.info("collected all garbage", extra=facts)

    def _measure(self, phase: str, info: dict[str, Any]) -> None:
        if not info["generation"]:
            return  # there are many of these, which take less time than to ask for it twice
        if phase == "start":
            self._began = time.thread_time()
        else:
            metrics.COLLECTIONS.labels(str(info["generation"])).observe(time.thread_time() - self._began)


def _resident() -> int:
    """Returns the resident memory of this process in bytes, or 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
