"""Reads YAML manifests that the project ships or generates, with libyaml's parser, six times as fast as Python's.

libyaml's parser recurses into its input and crashes the process at some ten thousand levels, so that a text is measured before.
Its length is not bounded here (api/untrusted_text.py, admission/dashboard/questions.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C loader, unless PyYAML was built without libyaml."""
DEEPEST: Final = 200
"""Deepest nesting of lists and maps; schemas of CRDs, the deepest manifests, have some fifty levels."""


class TooDeep(yaml.YAMLError):
    """The text nests too deeply to be parsed."""


def read(path: Path) -> list[Any]:
    """Returns the documents of a file, without empty ones. Raises OSError and yaml.YAMLError."""
    return parsed(path.read_text())


def read_one(path: Path) -> Any:
    """Returns the only document of a file. Raises ValueError if there is none or more than one."""
    (document,) = read(path)
    return document


def check_depth(text: str | bytes) -> None:
    """Measures a text without recursion, which takes a tenth of the time of parsing it. Raises yaml.YAMLError."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise TooDeep(f"nests deeper than {DEEPEST} levels")


def parsed(text: str) -> list[Any]:
    """Returns the documents of a text, without empty ones. Raises yaml.YAMLError."""
    check_depth(text)
    return [document for document in yaml.load_all(text, Loader=_LOADER) if document]
