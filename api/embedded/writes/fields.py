"""The leaf fields of an object for server-side apply, and the merge types of its lists and maps.

A path is a tuple of steps: field names, `[{"name":"a"}]` for a list item by its key, `[="a"]` for an item of a set. List keys
come from a table for built-in kinds and from the schema for custom kinds. Called by apply.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from api.embedded.status import Obj, shown
from api.embedded.table import Path

# Merge types of lists in built-in kinds: by key fields, or as sets; all others are atomic.
_LIST_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "imagePullSecrets": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "conditions": ("type",),
    "addresses": ("type",),
    "ownerReferences": ("uid",),
    "webhooks": ("name",),
}
_SETS = frozenset(("finalizers",))
_ATOMIC_MAPS = frozenset(("nodeSelector", "selector", "nodeSelectorTerms", "securityContext"))
# Identity, and fields that the server owns: no field manager owns these.
_SKIPPED = {("apiVersion",), ("kind",)} | {
    ("metadata", name)
    for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
}

ListType = Callable[[Path], "tuple[str, ...] | str"]


def builtin_lists(path: Path) -> tuple[str, ...] | str:
    """Returns the key fields of the list at `path`, "set" or "atomic"; for maps "atomic" or "granular"."""
    name = path[-1]
    if name in _SETS:
        return "set"
    if name == "ports":
        return ("containerPort", "protocol") if "containers" in path else ("port", "protocol")
    return _LIST_KEYS.get(name, "atomic" if name in _ATOMIC_MAPS else "granular")


def schema_lists(at: Callable[[Path], Obj]) -> ListType:
    """Returns the merge types of a CRD, from x-kubernetes-list-type and x-kubernetes-map-type in its schema."""

    def kind(path: Path) -> tuple[str, ...] | str:
        if path[:1] == ("metadata",):
            return builtin_lists(path)
        node = at(tuple("*" if step.startswith("[") else step for step in path))
        if node.get("x-kubernetes-list-type") == "map":
            return tuple(node["x-kubernetes-list-map-keys"])
        return str(node.get("x-kubernetes-list-type") or node.get("x-kubernetes-map-type") or "granular")

    return kind


def leaves(obj: Any, lists: ListType, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yields every leaf field with its value. A list item with a key is the step `[{"name":"a"}]`."""
    if path in _SKIPPED:
        return
    if isinstance(obj, dict) and obj and (not path or lists(path) != "atomic"):
        for name, value in obj.items():
            yield from leaves(value, lists, (*path, name))
    elif isinstance(obj, list) and obj and lists(path) == "set":
        for item in obj:
            yield (*path, f"[={shown(item)}]"), item
    elif isinstance(obj, list) and obj and isinstance(lists(path), tuple):
        for item in obj:
            yield from leaves(item, lists, (*path, item_step(item, lists(path))))
    elif path:
        yield path, obj


def item_step(item: Obj, keys: tuple[str, ...] | str) -> str:
    return f"[{shown({key: item.get(key, 'TCP' if key == 'protocol' else None) for key in keys})}]"


def field_name(path: Path) -> str:
    """Returns a field's name as conflicts print it: `.spec.template.spec.containers[name="c"].image`."""
    return "".join(step if step.startswith("[") else f".{step}" for step in map(_pretty, path))


def _pretty(step: str) -> str:
    if not step.startswith("[{"):
        return step
    pairs = step[2:-2].replace('":', "=").split(',"')
    return "[" + ",".join(pair.lstrip('"') for pair in pairs) + "]"


def keys_of(step: str) -> tuple[str, ...]:
    """Returns the key fields of a list item's step; empty for other steps."""
    return tuple(msgspec.json.decode(step[1:-1])) if step.startswith("[{") else ()


def is_item(item: Any, step: str) -> bool:
    """Reports whether `step` names this list item."""
    if step.startswith("[="):
        return step == f"[={shown(item)}]"
    return isinstance(item, dict) and item_step(item, keys_of(step)) == step
