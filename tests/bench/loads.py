"""The loads and what is aimed at, as data: loads.json by section."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("loads.json")


def loads(section: str) -> dict[str, Any]:
    """One section: `jobs`, `gangs`, `coldstart` or `webhook`."""
    sections: dict[str, dict[str, Any]] = json.loads(_FILE.read_text())
    return sections[section]
