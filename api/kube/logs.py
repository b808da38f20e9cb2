"""Logging of a process: one JSON object a line on stderr, or plain lines for people.

Modules log through the standard library and put facts into `extra`; the formatter only writes them down. The names of
LogRecord itself (name, process, module, args ...) cannot be facts: the standard library raises (ruff: G101).
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

# What every LogRecord has by itself; anything else came in through `extra`.
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}

_encoder = msgspec.json.Encoder(enc_hook=str)


def facts(record: logging.LogRecord) -> dict[str, Any]:
    """What the caller gave as `extra`."""
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}


class JsonFormatter(logging.Formatter):
    """`{"time", "level", "logger", "message", ...facts, "exception"}`; values that are no JSON become their str()."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in facts(record).items():
            line[name if name not in line else f"{name}_"] = value
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _encoder.encode(line).decode()


class PlainFormatter(logging.Formatter):
    """`12:00:01.123 INFO logger: message fact=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it where there is one."""
        stamp = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        details = "".join(f" {name}={value}" for name, value in facts(record).items())
        line = f"{stamp} {record.levelname} {record.name}: {record.getMessage()}{details}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure(level: str = "INFO", *, as_json: bool = True) -> None:
    """Sets up the root logger; called once, by process.serve or a command line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else PlainFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    # A line for each request of a probe or scrape is noise.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
