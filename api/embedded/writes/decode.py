"""Decodes a request body as the server does: prunes unknown fields, drops empty values, sets defaults.

Runs on request bodies, on the result of a patch, and again after mutating webhooks. Called by change.py.
"""

from __future__ import annotations

from typing import Any

from api.embedded import meta
from api.embedded.kinds import ServedKind
from api.embedded.status import Obj, bad_request

_TEXTS = frozenset(("labels", "annotations", "nodeSelector", "matchLabels"))
_MAPS = _TEXTS | {"limits", "requests"}


def decoded(kind: ServedKind, obj: Obj, version: str, *, strict: bool) -> Obj:
    """Prunes and defaults in place. Raises status 400 for unknown fields if the request is strict."""
    meta.meta_of(obj)
    gone = normalize(kind, obj, version)
    if gone and strict:
        unknown = ", ".join(f'unknown field "{path}"' for path in sorted(gone))
        what = f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{what}: strict decoding error: {unknown}")
    return obj


def normalize(kind: ServedKind, obj: Obj, version: str) -> list[str]:
    """Prunes and defaults in place; returns the paths of pruned fields."""
    gone: list[str] = []
    schema = kind.schemas.get(version)
    if schema is not None:
        gone = schema.prune(obj)
        schema.default(obj)
    if not kind.custom:
        _tidy(obj["metadata"])
        _tidy(obj.get("spec"))
    kind.rules.default(obj)
    return gone


def _tidy(tree: Any) -> None:
    """Drops null values and empty lists as built-in types do when encoded; empty objects stay, except maps.

    A null in a map of strings is the empty string: `labels: {sakkara.group: }` sets the label.
    """
    if isinstance(tree, dict):
        for name in list(tree):
            value = tree[name]
            if name in _TEXTS and isinstance(value, dict):
                value.update({key: "" for key, text in value.items() if text is None})
            if value is None or value == [] or (value == {} and name in _MAPS):
                del tree[name]
            elif isinstance(value, (dict, list)):
                _tidy(value)
    elif isinstance(tree, list):
        for item in tree:
            if isinstance(item, (dict, list)):
                _tidy(item)
