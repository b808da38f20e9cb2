"""Manifests that the project itself ships or generates: YAML, read by libyaml's parser, six times as fast as Python's.

Not for text of users: nothing here bounds length or depth (api/untrusted_text.py, admission/world/documents.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML can be built without libyaml."""


def read(path: Path) -> list[Any]:
    """The documents of a file, without empty ones. Raises OSError and yaml.YAMLError."""
    return parsed(path.read_text())


def read_one(path: Path) -> Any:
    """The only document of a file. Raises ValueError where it has none or several."""
    (document,) = read(path)
    return document


def parsed(text: str) -> list[Any]:
    """The documents of a text, without empty ones. Raises yaml.YAMLError."""
    return [document for document in yaml.load_all(text, Loader=_LOADER) if document]
