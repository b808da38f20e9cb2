"""Takes invalid settings out of a settings file, and leaves all else of it as it is written, comments included. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from api.text.manifests import composed, parsed

Path = tuple[str, ...]


def without(text: str, paths: Iterable[Sequence[str | int]]) -> str | None:
    """Returns the YAML text without these settings, so that their defaults apply; None if it cannot be done one by one.

    A path names keys from the outside in; case and underscores do not count, as in names of variables. An item of a list is
    not taken out: what the rest of the list means is for a person to say.
    """
    for path in paths:
        keys = _keys(text, path)
        if keys is None or (less := _cut(text, keys)) is None:
            return None
        text = less
    return text


def bare(name: str) -> str:
    """Returns what is compared of a name."""
    return name.replace("_", "").lower()


def _keys(text: str, path: Sequence[str | int]) -> Path | None:
    """Returns the path as the file writes it; None if the file does not have it."""
    (value, *_) = parsed(text) or (None,)
    keys: list[str] = []
    for part in path:
        if not isinstance(value, dict) or not isinstance(part, str):
            return None
        key = part if part in value else next((each for each in value if bare(str(each)) == bare(part)), None)
        if not isinstance(key, str):
            return None
        keys.append(key)
        value = value[key]
    return tuple(keys) or None


def _cut(text: str, path: Path) -> str | None:
    """Returns the text without the key, and without sections that have no other key."""
    wanted = _removed(parsed(text)[0], path)
    node, spans = composed(text), []
    for key in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        at = next((index for index, (name, _) in enumerate(node.value) if name.value == key), None)
        if at is None:
            return None
        spans.append((node, at))
        node = node.value[at][1]
    while len(spans) > 1 and len(spans[-1][0].value) == 1:
        spans.pop()
    less = _spliced(text, *spans[-1])
    try:
        same = (parsed(less) or [{}])[0] == wanted
    except yaml.YAMLError:
        return None
    return less if same else None


def _spliced(text: str, mapping: yaml.MappingNode, at: int) -> str:
    key, value = mapping.value[at]
    following = mapping.value[at + 1][0].start_mark if at + 1 < len(mapping.value) else None
    if mapping.flow_style:
        if following is not None:
            return text[: key.start_mark.index] + text[following.index :]
        start = mapping.value[at - 1][1].end_mark.index if at else key.start_mark.index
        return text[:start] + text[value.end_mark.index :]
    lines = text.splitlines(keepends=True)
    end = following.line if following is not None else max(value.end_mark.line, key.start_mark.line + 1)
    if following is None and value.end_mark.column:
        end = max(end, value.end_mark.line + 1)
    while end - 1 > key.start_mark.line and (not (line := lines[end - 1].strip()) or line.startswith("#")):
        end -= 1
    return "".join(lines[: key.start_mark.line] + lines[end:])


def _removed(value: Any, path: Path) -> dict[str, Any]:
    """Returns the map without the key, and without maps that become empty."""
    first, *rest = path
    copy = dict(value)
    if rest and (inner := _removed(copy[first], tuple(rest))):
        copy[first] = inner
    else:
        del copy[first]
    return copy
