"""Shows the progress of a Go command: on a terminal one line that is rewritten, in a log a line at intervals."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Iterator
from typing import TextIO

_LOG_EVERY = 15.0  # seconds between two lines without a terminal
_KEPT = 400  # lines of a command's stderr kept for an error message


class Progress:
    """Counts output lines of successive stages. `usual` says how long all stages usually take."""

    def __init__(self, out: TextIO, usual: str) -> None:
        self._out, self._usual, self._terminal = out, usual, out.isatty()
        self._started = time.monotonic()
        self._shown_at = 0.0
        self._total: int | None = None
        self._stage, self._count, self._now = "", 0, ""

    def stage(self, name: str, total: int | None) -> None:
        """Starts a new count; `total` is the expected number of lines, if known."""
        self._stage, self._total, self._count, self._now = name, total, 0, ""
        self.show(force=True)

    def line(self, text: str) -> None:
        """Counts one more package or module."""
        self._count += 1
        self._now = text.removeprefix("go: downloading ")
        self.show()

    def show(self, *, force: bool = False) -> None:
        """Prints the progress if it is time to; call it about once a second."""
        now = time.monotonic()
        if self._stage and (force or now - self._shown_at >= (0.2 if self._terminal else _LOG_EVERY)):
            self._shown_at = now
            self._print(self.text(now - self._started))

    def text(self, elapsed: float) -> str:
        """Returns the line, such as `control plane: compiling 12/2874 · k8s.io/api · 0:42 elapsed, usually ...`."""
        count = f"{self._count}/{self._total}" if self._total else (str(self._count) if self._count else "")
        doing = f"{self._stage} {count}".strip()
        parts = [doing, *([self._now] if self._now else []), f"{clock(elapsed)} elapsed, {self._usual}"]
        return "control plane: " + " · ".join(parts)

    def done(self, text: str) -> None:
        self._print(f"control plane: {text} in {clock(time.monotonic() - self._started)}")
        if self._terminal:
            print(file=self._out, flush=True)

    def _print(self, text: str) -> None:
        if self._terminal:
            width = os.get_terminal_size(self._out.fileno()).columns - 1
            print(f"\r\x1b[2K{text[:width]}", end="", file=self._out, flush=True)
        else:
            print(text, file=self._out, flush=True)


def clock(seconds: float) -> str:
    """Formats seconds: 65.2 becomes `1:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def follow(process: subprocess.Popen[bytes], progress: Progress) -> list[str]:
    """Reads the process's stderr into `progress` until it ends, and returns the last lines."""
    lines: list[str] = []
    for line in _lines(process):
        if line is None:
            progress.show()
            continue
        progress.line(line)
        lines = [*lines[1 - _KEPT :], line]
    process.wait()
    return lines


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str | None]:
    """Yields the lines of stderr, and None for each second without one."""
    assert process.stderr is not None, "started without stderr=PIPE"
    rest = b""
    with process.stderr as pipe, selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(timeout=1.0):
                yield None
                continue
            chunk = os.read(pipe.fileno(), 65536)
            if not chunk:
                break
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")
