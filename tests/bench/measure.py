"""What a process costs, read from /proc: CPU seconds, resident memory now and at its highest."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cost:
    """`cpu` in seconds of user and system time; memory in MiB."""

    cpu: float
    resident: float
    highest: float


def cost(pid: int) -> Cost:
    """Of a process that lives. Raises FileNotFoundError for one that does not."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    sizes = {line[0]: int(line[1]) / 1024 for line in lines if line and line[0] in ("VmRSS:", "VmHWM:")}
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return Cost(seconds, sizes["VmRSS:"], sizes["VmHWM:"])
