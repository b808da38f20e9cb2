"""Reads YAML manifests that the project ships or generates, with libyaml's parser, six times as fast as Python's.

Not for input of users: length and depth are not bounded here (api/untrusted_text.py, admission/world/documents.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C loader, unless PyYAML was built without libyaml."""


def read(path: Path) -> list[Any]:
    """Returns the documents of a file, without empty ones. Raises OSError and yaml.YAMLError."""
    return parsed(path.read_text())


def read_one(path: Path) -> Any:
    """Returns the only document of a file. Raises ValueError if there is none or more than one."""
    (document,) = read(path)
    return document


def parsed(text: str) -> list[Any]:
    """Returns the documents of a text, without empty ones. Raises yaml.YAMLError."""
    return [document for document in yaml.load_all(text, Loader=_LOADER) if document]
