"""Logging of a process to stderr: JSON lines, or plain text.

Modules log with the standard library and pass fields in `extra`; the formatters write them. Names of LogRecord attributes
(name, process, module, args ...) are not allowed as fields: the standard library raises an error (ruff: G101).
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

# Attributes of every LogRecord; all others came from `extra`.
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}

_encoder = msgspec.json.Encoder(enc_hook=str)


def facts(record: logging.LogRecord) -> dict[str, Any]:
    """Returns the fields that the caller passed in `extra`."""
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}


class JsonFormatter(logging.Formatter):
    """Formats `{"time", "level", "logger", "message", ...fields, "exception"}`; other values than JSON become strings."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns one JSON line."""
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
    """Formats `12:00:01.123 INFO logger: message field=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns one line, followed by the traceback if there is one."""
        stamp = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        details = "".join(f" {name}={value}" for name, value in facts(record).items())
        line = f"{stamp} {record.levelname} {record.name}: {record.getMessage()}{details}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure(level: str = "INFO", *, as_json: bool = True) -> None:
    """Sets up the root logger. Called once, by process.serve or a command."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else PlainFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    # Access logs of probes and scrapes are noise.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
