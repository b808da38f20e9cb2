"""From a body as it came to an object as the server reads it: pruned, tidied, defaulted.

Runs when a body comes in, on the result of a patch, and again on what mutating webhooks leave. Called by change.py.
"""

from __future__ import annotations

from typing import Any

from api.fake import meta
from api.fake.kinds import ServedKind
from api.fake.status import Obj, bad_request

_TEXTS = frozenset(("labels", "annotations", "nodeSelector", "matchLabels"))
_MAPS = _TEXTS | {"limits", "requests"}


def decoded(kind: ServedKind, obj: Obj, version: str, *, strict: bool) -> Obj:
    """Prunes and defaults in place. 400 for unknown fields when the request is strict."""
    meta.meta_of(obj)
    gone = normalize(kind, obj, version)
    if gone and strict:
        unknown = ", ".join(f'unknown field "{path}"' for path in sorted(gone))
        what = f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{what}: strict decoding error: {unknown}")
    return obj


def normalize(kind: ServedKind, obj: Obj, version: str) -> list[str]:
    """Returns the paths of the fields that were pruned."""
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
    """Drops null and empty lists as the built-in types do when they are written; empty objects stay, but for maps.

    A null in a map of texts is the empty text: `labels: {sakkara.group: }` bears the label.
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
