"""Server-side apply, at the level that our writers need.

Ownership is kept by leaf field and field manager for managers that apply; all fields written by other means count as
owned by the last such writer. An apply sets its fields, drops those it owned and no longer names, and clashes (409) with
a field of another owner whose value it would change, unless forced. Any other write takes the fields it changes away
from the appliers.

Left out: metadata.managedFields is not shown; an Update and an apply by the same manager are told apart only by the last
writer's name; ownership of map and list items themselves (an empty item) is not tracked beside their leaves.
Called by change.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from api.fake.patch import clone
from api.fake.status import Obj, apply_conflict, shown
from api.fake.table import Owner, Path, Record

# How lists of the built-in kinds merge: by key fields, or as sets; all others are atomic.
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
# Identity and what the server owns: never part of anybody's fields.
_SKIPPED = {("apiVersion",), ("kind",)} | {
    ("metadata", name)
    for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
}

ListType = Callable[[Path], "tuple[str, ...] | str"]


def builtin_lists(path: Path) -> tuple[str, ...] | str:
    """Key fields of the list at `path`, or "set", or "atomic". For maps: "atomic" or "granular"."""
    name = path[-1]
    if name in _SETS:
        return "set"
    if name == "ports":
        return ("containerPort", "protocol") if "containers" in path else ("port", "protocol")
    return _LIST_KEYS.get(name, "atomic" if name in _ATOMIC_MAPS else "granular")


def schema_lists(at: Callable[[Path], Obj]) -> ListType:
    """The same for a CRD: x-kubernetes-list-type and x-kubernetes-map-type of its schema."""

    def kind(path: Path) -> tuple[str, ...] | str:
        if path[:1] == ("metadata",):
            return builtin_lists(path)
        node = at(tuple("*" if step.startswith("[") else step for step in path))
        if node.get("x-kubernetes-list-type") == "map":
            return tuple(node["x-kubernetes-list-map-keys"])
        return str(node.get("x-kubernetes-list-type") or node.get("x-kubernetes-map-type") or "granular")

    return kind


def leaves(obj: Any, lists: ListType, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every leaf field with its value. A list item by key is the step `[{"name":"a"}]`."""
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
    """`.spec.template.spec.containers[name="c"].image`, as conflicts name a field."""
    return "".join(step if step.startswith("[") else f".{step}" for step in map(_pretty, path))


def _pretty(step: str) -> str:
    if not step.startswith("[{"):
        return step
    pairs = step[2:-2].replace('":', "=").split(',"')
    return "[" + ",".join(pair.lstrip('"') for pair in pairs) + "]"


def apply(
    record: Record | None, config: Obj, owner: Owner, lists: ListType, *, force: bool
) -> tuple[Obj, Mapping[Owner, frozenset[Path]]]:
    """The new object and who owns what. 409 on a clash unless `force`."""
    live = record.obj if record else {}
    held = dict(record.appliers) if record else {}
    wanted = dict(leaves(config, lists))
    had = held.get(owner, frozenset())
    now = dict(leaves(live, lists))
    clashes = list(_clashes(record, owner, wanted, now)) if record else []
    if clashes and not force:
        raise apply_conflict([(who, field_name(path)) for who, path in clashes])
    merged = _merge(live, config, lists, ())
    for path in had - wanted.keys():
        if not any(path in paths for other, paths in held.items() if other != owner):
            _drop(merged, path)
    taken = {path for _, path in clashes}
    held = {other: paths - taken for other, paths in held.items() if other != owner}
    held[owner] = frozenset(wanted)
    return merged, held


def _clashes(
    record: Record, owner: Owner, wanted: Mapping[Path, Any], now: Mapping[Path, Any]
) -> Iterator[tuple[str, Path]]:
    version = record.obj["apiVersion"]
    for path, value in wanted.items():
        if path not in now or now[path] == value:
            continue
        others = [other for other, paths in record.appliers.items() if path in paths and other != owner]
        for name, subresource in others:
            yield f'"{name}"' + (f' with subresource "{subresource}"' if subresource else ""), path
        if not others and path not in record.appliers.get(owner, ()):
            yield f'"{record.writer}" using {version}', path


def _merge(live: Any, config: Any, lists: ListType, path: Path) -> Any:
    if isinstance(config, dict) and isinstance(live, dict) and (not path or lists(path) != "atomic"):
        merged = dict(live)
        for name, value in config.items():
            merged[name] = _merge(live.get(name), value, lists, (*path, name))
        return merged
    if isinstance(config, list) and isinstance(live, list):
        return _merge_list(live, config, lists, path)
    return clone(config)


def _merge_list(live: list[Any], config: list[Any], lists: ListType, path: Path) -> list[Any]:
    keys = lists(path)
    if keys == "set":
        return live + [item for item in config if item not in live]
    if not isinstance(keys, tuple):
        return list(clone(config))
    merged = list(live)
    steps = [item_step(item, keys) for item in live]
    for item in config:
        step = item_step(item, keys)
        if step in steps:
            at = steps.index(step)
            merged[at] = _merge(merged[at], item, lists, (*path, step))
        else:
            merged.append(clone(item))
    return merged


def _drop(tree: Any, path: Path) -> None:
    """Removes a leaf, and on the way back the maps and items it leaves empty. `tree` is ours down to the path."""
    step, rest = path[0], path[1:]
    if isinstance(tree, dict):
        if step not in tree:
            return
        if rest:
            tree[step] = clone(tree[step])
            _drop(tree[step], rest)
        if not rest or tree[step] in ({}, []):
            del tree[step]
    elif isinstance(tree, list):
        at = next((i for i, item in enumerate(tree) if _is_item(item, step)), None)
        if at is None:
            return
        if rest:
            _drop(tree[at], rest)
        if not rest or _only_keys(tree[at], step):
            del tree[at]


def _is_item(item: Any, step: str) -> bool:
    if step.startswith("[="):
        return step == f"[={shown(item)}]"
    return isinstance(item, dict) and item_step(item, _keys(step)) == step


def _keys(step: str) -> tuple[str, ...]:
    import msgspec

    return tuple(msgspec.json.decode(step[1:-1]))


def _only_keys(item: Any, step: str) -> bool:
    return isinstance(item, dict) and not item.keys() - set(_keys(step))


def disown(
    appliers: Mapping[Owner, frozenset[Path]], old: Obj, new: Obj, lists: ListType
) -> Mapping[Owner, frozenset[Path]]:
    """Ownership after a write by other means: changed or removed fields are nobody's any more."""
    if not appliers:
        return appliers
    before, after = dict(leaves(old, lists)), dict(leaves(new, lists))
    lost = {path for path, value in before.items() if path not in after or after[path] != value}
    return {owner: paths - lost for owner, paths in appliers.items()}
