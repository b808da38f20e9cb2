"""Server-side apply: field ownership, conflicts, and the merge.

Ownership is tracked by leaf field, field manager, subresource and operation from the first apply; before it the last writer
owns the whole object. An apply sets its fields, and removes those that it owned alone and no longer names. It conflicts (409)
with another owner whose field it would change, unless forced. Any other write takes ownership of the fields that it changes.

Not supported: metadata.managedFields is not shown, and an empty container owns nothing below it. Called by change.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from api.embedded.patch import clone
from api.embedded.status import Obj, apply_conflict
from api.embedded.table import FieldManager, Owners, Path, StoredObject
from api.embedded.writes.fields import ListType, field_name, is_item, item_step, keys_of, leaves


def apply(
    record: StoredObject | None, config: Obj, owner: FieldManager, lists: ListType, *, force: bool
) -> tuple[Obj, Owners]:
    """Returns the new object and its field ownership. 409 on a clash unless `force`."""
    live = record.obj if record else {}
    held = dict(_tracked(record, lists)) if record else {}
    wanted = dict(leaves(config, lists))
    clashes = list(_clashes(held, owner, wanted, dict(leaves(live, lists))))
    if clashes and not force:
        version = str(live.get("apiVersion"))
        raise apply_conflict([(_label(other, version), field_name(path)) for other, path in clashes])
    merged = _merge(live, config, lists, ())
    others = {path for other, paths in held.items() if other != owner for path in paths}
    for path in sorted(held.get(owner, frozenset()) - wanted.keys() - others, key=len):
        _drop(merged, path)
    taken = {path for _, path in clashes}
    held = {other: paths - taken for other, paths in held.items() if other != owner}
    return merged, {**{other: paths for other, paths in held.items() if paths}, owner: frozenset(wanted)}


def _tracked(record: StoredObject, lists: ListType) -> Owners:
    """Returns field ownership; the last writer owns all fields of an object that was never applied."""
    if record.owners:
        return record.owners
    return {FieldManager(record.writer, "", False): frozenset(path for path, _ in leaves(record.obj, lists))}


def _clashes(
    held: Owners, owner: FieldManager, wanted: Mapping[Path, Any], now: Mapping[Path, Any]
) -> Iterator[tuple[FieldManager, Path]]:
    for path, value in wanted.items():
        if path in now and now[path] != value:
            yield from ((other, path) for other, paths in held.items() if other != owner and path in paths)


def _label(owner: FieldManager, version: str) -> str:
    """Returns the owner's name as the real server prints it: `"kubectl" with subresource "status" using v1`."""
    subresource = f' with subresource "{owner.subresource}"' if owner.subresource else ""
    return f'"{owner.manager}"{subresource}' + ("" if owner.applies else f" using {version}")


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
    """Removes a leaf, its list item if the leaf is the item's key, and containers that become empty. Changes `tree`."""
    step, rest = path[0], path[1:]
    if isinstance(tree, dict) and step in tree:
        if rest:
            tree[step] = clone(tree[step])
            _drop(tree[step], rest)
        if not rest or tree[step] in ({}, []):
            del tree[step]
    elif isinstance(tree, list):
        at = next((i for i, item in enumerate(tree) if is_item(item, step)), None)
        if at is not None:
            _drop_item(tree, at, step, rest)


def _drop_item(tree: list[Any], at: int, step: str, rest: Path) -> None:
    keys = keys_of(step)
    if not rest or rest[0] in keys:
        del tree[at]
        return
    _drop(tree[at], rest)
    if not tree[at].keys() - set(keys):
        del tree[at]


def take_over(owners: Owners, owner: FieldManager, old: Obj, new: Obj, lists: ListType) -> Owners:
    """Returns the ownership after a write other than apply: `owner` gets the changed fields."""
    if not owners:
        return owners
    before, after = dict(leaves(old, lists)), dict(leaves(new, lists))
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    lost = changed | (before.keys() - after.keys())
    held = {other: paths - lost for other, paths in owners.items()}
    held[owner] = held.get(owner, frozenset()) | changed
    return {other: paths for other, paths in held.items() if paths}
