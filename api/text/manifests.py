"""Reads YAML: manifests of the project, of files and of users, settings. It is the only reader: a bound holds everywhere.

It reads what Kubernetes' own tools read: maps, lists, texts, numbers and booleans; a timestamp is a text. YAML 1.1 has more,
whose reading takes time without bound in a short text: numbers to the base 60, numbers of any length, aliases that stand for
each other, objects that contain themselves. A text is measured event by event before it is read, since libyaml's parser also
recurses into it and ends the process at some ten thousand levels. The length of the whole text is bounded by those who receive
it (api/text/untrusted_text.py, admission/dashboard/questions.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

_PARENT: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C loader, six times as fast as Python's, unless PyYAML was built without libyaml."""
DEEPEST: Final = 200
"""Deepest nesting of lists and maps, with what aliases stand for; schemas of CRDs, the deepest manifests, have fifty levels."""
LONGEST_SCALAR: Final = 1024 * 1024
"""Most characters of a text; a ConfigMap, which holds the longest, has at most as many."""
LONGEST_NUMBER: Final = 64
"""Most characters of a number; an integer of 64 bits has twenty."""
MOST_REPEATED: Final = 100_000
"""Most values that aliases stand for, in all documents of a text."""
_TAG: Final = "tag:yaml.org,2002:"
_KNOWN: Final = frozenset(_TAG + name for name in ("map", "seq", "str", "int", "float", "bool", "null"))
_WRITTEN: Final = {
    "int": r"[-+]?(?:0b[01_]+|0[0-7_]*|[1-9][0-9_]*|0o[0-7_]+|0x[0-9a-fA-F_]+)",
    "float": r"[-+]?(?:(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)",
}
"""How numbers are written; without those to the base 60 (1:30) of YAML 1.1, which stay texts."""


class TooLarge(yaml.YAMLError):
    """The text nests too deeply, or a part of it is too long or is repeated too often to be read."""


class Loader(_PARENT):  # type: ignore[misc]  # one of two classes, by how PyYAML was built
    """Constructs the values of JSON only."""

    def number(self, node: yaml.ScalarNode) -> int | float:
        """Returns a number. Raises ConstructorError, also for one that a tag calls a number."""
        text = self.construct_scalar(node)
        kind = node.tag.removeprefix(_TAG)
        if len(text) > LONGEST_NUMBER or re.fullmatch(_WRITTEN["int" if kind == "int" else "float"], text) is None:
            given = text if len(text) <= LONGEST_NUMBER else f"{text[:LONGEST_NUMBER]}..."
            what = f"{given!r}: must be a number of at most {LONGEST_NUMBER} characters"
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark)
        plain = text.replace("_", "").replace("0o", "0")
        try:
            return _integer(plain) if kind == "int" else _decimal(plain)
        except ValueError:
            what = f"{text!r}: must be a number"
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark) from None


def _integer(text: str) -> int:
    """Returns an integer; a leading zero means the base 8, as in YAML 1.1."""
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.removeprefix("+"))
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "bx"
    return sign * (int(digits, 8) if octal else int(digits, 0))


def _decimal(text: str) -> float:
    word = text.lower()
    return float(word.replace(".inf", "inf").replace(".nan", "nan"))


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Returns the resolvers of plain scalars by first character: those of the parent, with numbers as they are written here."""
    numbers = {_TAG + kind: re.compile(rf"(?:{pattern})$") for kind, pattern in _WRITTEN.items()}
    kept = _KNOWN | {_TAG + "merge"}
    return {
        first: [(tag, numbers.get(tag, pattern)) for tag, pattern in resolvers if tag in kept]
        for first, resolvers in _PARENT.yaml_implicit_resolvers.items()
    }


Loader.yaml_implicit_resolvers = _resolvers()
Loader.yaml_constructors = {
    tag: constructor for tag, constructor in _PARENT.yaml_constructors.items() if tag is None or tag in _KNOWN
}
for _kind in _WRITTEN:
    Loader.add_constructor(_TAG + _kind, Loader.number)


class Unmerged(Loader):
    """Knows no merge keys (`<<`), as Kubernetes' API server does not."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Leaves merge keys in place; nothing constructs them, so that they are refused."""


@dataclass(slots=True)
class _Size:
    """The values that a list or map contains, itself included, and its levels; with what its aliases stand for."""

    anchor: str | None
    values: int = 1
    levels: int = 1

    def add(self, values: int, levels: int) -> None:
        self.values += values
        self.levels = max(self.levels, levels + 1)


def check(text: str | bytes) -> None:
    """Measures a text without recursion, which takes a tenth of the time of reading it. Raises yaml.YAMLError."""
    open_: list[_Size] = []
    anchors: dict[str, _Size] = {}
    repeated = 0
    for event in yaml.parse(text, Loader=_PARENT):
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append(_Size(event.anchor))
            anchors.pop(event.anchor or "", None)
            if len(open_) > DEEPEST:
                raise TooLarge(f"nests deeper than {DEEPEST} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = open_.pop()
            if closed.anchor is not None:
                anchors[closed.anchor] = closed
            if open_:
                open_[-1].add(closed.values, closed.levels)
        elif isinstance(event, yaml.ScalarEvent):
            if len(event.value) > LONGEST_SCALAR:
                raise TooLarge(f"has a text of more than {LONGEST_SCALAR} characters")
            if event.anchor is not None:
                anchors[event.anchor] = _Size(None, levels=0)
            if open_:
                open_[-1].add(1, 0)
        elif isinstance(event, yaml.AliasEvent):
            target = anchors.get(event.anchor or "")
            if target is None:
                raise TooLarge("has an alias that stands for nothing before it, or that contains itself")
            repeated += target.values
            if repeated > MOST_REPEATED:
                raise TooLarge(f"has aliases that stand for more than {MOST_REPEATED} values")
            if len(open_) + target.levels > DEEPEST:
                raise TooLarge(f"nests deeper than {DEEPEST} levels")
            if open_:
                open_[-1].add(target.values, target.levels)
        elif isinstance(event, yaml.DocumentStartEvent):
            anchors = {}


def documents(text: str | bytes, *, merge: bool = True) -> Iterator[Any]:
    """Yields the documents of a text, empty ones included. Raises yaml.YAMLError.

    Without `merge`, merge keys (`<<`) are refused.
    """
    check(text)
    yield from yaml.load_all(text, Loader=Loader if merge else Unmerged)


def parsed(text: str | bytes) -> list[Any]:
    """Returns the documents of a text, without empty ones. Raises yaml.YAMLError."""
    return [document for document in documents(text) if document]


def composed(text: str) -> yaml.Node | None:
    """Returns the nodes of a text of one document, with their places in it. Raises yaml.YAMLError."""
    check(text)
    return yaml.compose(text, Loader=yaml.SafeLoader)


def read(path: Path) -> list[Any]:
    """Returns the documents of a file, without empty ones. Raises OSError and yaml.YAMLError."""
    return parsed(path.read_text())


def read_one(path: Path) -> Any:
    """Returns the only document of a file. Raises ValueError if there is none or more than one."""
    (document,) = read(path)
    return document
