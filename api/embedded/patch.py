"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386) on JSON trees, and a deep copy.

Input trees are never changed, because stored objects are shared. strategic.py has strategic merge, apply.py server-side apply.
Called by change.py for requests and by admission.py for responses of mutating webhooks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from api.embedded.status import Obj, bad_request, unprocessable


def clone(tree: Any) -> Any:
    """Returns a deep copy of a JSON tree (dicts, lists, scalars)."""
    if isinstance(tree, dict):
        return {key: clone(value) if isinstance(value, (dict, list)) else value for key, value in tree.items()}
    if isinstance(tree, list):
        return [clone(value) if isinstance(value, (dict, list)) else value for value in tree]
    return tree


def merge_patch(target: Any, patch: Any) -> Any:
    """Returns the merged tree; null in the patch removes a key."""
    if not isinstance(patch, dict):
        return clone(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Obj, operations: Any) -> Obj:
    """Returns a patched copy. Raises status 422 if a test fails or a path is missing, 400 for a malformed patch."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    tree = {"": clone(target)}  # a root above the document, so that path "" can be replaced
    for operation in operations:
        _apply(tree, operation)
    return _document(tree[""])


def _document(tree: Any) -> Obj:
    if not isinstance(tree, dict):
        raise unprocessable("a patch must leave an object")
    return tree


def _apply(tree: Obj, operation: Obj) -> None:
    op, path = operation.get("op"), operation.get("path", "")
    match op:
        case "add":
            _add(tree, path, clone(_value(operation)))
        case "remove":
            _remove(tree, path)
        case "replace":
            _replace(tree, path, clone(_value(operation)))
        case "test":
            _test(tree, path, operation.get("value"))
        case "copy":
            _add(tree, path, clone(_get(tree, operation.get("from", ""), "copy")))
        case "move":
            _add(tree, path, _remove(tree, operation.get("from", "")))
        case _:
            raise bad_request(f"Unexpected kind: {op}")


def _value(operation: Obj) -> Any:
    if "value" not in operation:
        raise unprocessable(f"{operation.get('op')} operation missing value: path {operation.get('path')}")
    return operation["value"]


def _steps(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise unprocessable(f"path {path!r} does not start with /")
    return [""] + [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _parent(tree: Obj, path: str, op: str) -> tuple[Any, str]:
    steps = _steps(path)
    return _walk(tree, steps[:-1], path, op), steps[-1]


def _walk(tree: Any, steps: Iterable[str], path: str, op: str) -> Any:
    for step in steps:
        if isinstance(tree, list):
            tree = tree[_index(step, len(tree) - 1, path, op)]
        elif isinstance(tree, dict) and step in tree:
            tree = tree[step]
        else:
            raise _missing(op, path)
    return tree


def _missing(op: str, path: str) -> Exception:
    return unprocessable(f'{op} operation does not apply: doc is missing path: "{path}": missing value')


def _index(step: str, highest: int, path: str, op: str) -> int:
    if not step.lstrip("-").isdigit() or not -highest - 1 <= int(step) <= highest:
        raise unprocessable(f"{op} operation does not apply: doc is missing path: {path}: invalid index {step}")
    return int(step)


def _get(tree: Obj, path: str, op: str) -> Any:
    return _walk(tree, _steps(path), path, op)


def _add(tree: Obj, path: str, value: Any) -> None:
    parent, last = _parent(tree, path, "add")
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(last, len(parent), path, "add"), value)
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise _missing("add", path)


def _remove(tree: Obj, path: str) -> Any:
    parent, last = _parent(tree, path, "remove")
    if isinstance(parent, list):
        return parent.pop(_index(last, len(parent) - 1, path, "remove"))
    if isinstance(parent, dict) and last in parent:
        return parent.pop(last)
    raise _missing("remove", path)


def _replace(tree: Obj, path: str, value: Any) -> None:
    parent, last = _parent(tree, path, "replace")
    if isinstance(parent, list):
        parent[_index(last, len(parent) - 1, path, "replace")] = value
    elif isinstance(parent, dict) and last in parent:
        parent[last] = value
    else:
        raise _missing("replace", path)


def _test(tree: Obj, path: str, value: Any) -> None:
    try:
        present = _get(tree, path, "test")
    except Exception:
        if value is None:
            return
        raise
    if present != value:
        raise unprocessable(f"testing value {path} failed: test failed")
