"""Strategic merge patch for the built-in kinds that Stowage writes.

Lists merge by key (containers by name, gates by name, conditions by type, ...) or as sets (finalizers); others are replaced
(tolerations, taints). Supports `$patch: delete | replace`, `$deleteFromPrimitiveList/x` and `$retainKeys`; ignores
`$setElementOrder/x`. Input trees are never changed. Called by change.py.
"""

from __future__ import annotations

from typing import Any

from api.embedded.patch import clone
from api.embedded.status import Obj, bad_request

# By field name: in the served kinds a name has one meaning only, except `ports`.
_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "secrets": "name",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "topologySpreadConstraints": "topologyKey",
    "hostAliases": "ip",
    "podIPs": "ip",
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "webhooks": "name",
    "matchConditions": "name",
}
_SETS = frozenset(("finalizers", "podCIDRs"))


def strategic_merge(target: Obj, patch: Any, kind: str) -> Obj:
    """Returns a merged copy of `target`, an object of `kind`."""
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}")
    return _maps(target, patch, kind)


def _maps(target: Obj, patch: Obj, kind: str) -> Obj:
    if "$patch" in patch:
        return _directive(patch, kind)
    merged = dict(target)
    for key, value in patch.items():
        if key.startswith("$"):
            _special(merged, key, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = _value(key, merged.get(key), value, kind)
    if "$retainKeys" in patch:
        return {key: value for key, value in merged.items() if key in patch["$retainKeys"]}
    return merged


def _directive(patch: Obj, kind: str) -> Obj:
    directive = patch["$patch"]
    if directive not in ("replace", "delete", "merge"):
        raise bad_request(f'Unknown patch type found: {{"$patch":"{directive}"}}')
    rest = {key: value for key, value in patch.items() if key != "$patch"}
    return {} if directive == "delete" else _maps({}, rest, kind)


def _special(merged: Obj, key: str, value: Any) -> None:
    directive, _, field = key.partition("/")
    if directive == "$deleteFromPrimitiveList":
        kept = [item for item in merged.get(field) or () if item not in value]
        merged[field] = kept


def _value(field: str, old: Any, new: Any, kind: str) -> Any:
    if isinstance(new, dict):
        return _maps(old if isinstance(old, dict) else {}, new, kind)
    if isinstance(new, list):
        return _lists(field, old if isinstance(old, list) else [], new, kind)
    return new


def _lists(field: str, old: list[Any], new: list[Any], kind: str) -> list[Any]:
    if field in _SETS:
        return _ordered([item for item in old if item not in new], list(dict.fromkeys(new)), old)
    key = merge_key(field, kind)
    if key is None or not all(isinstance(item, dict) for item in new):
        return list(clone(new))
    if any(item.get("$patch") == "replace" for item in new):
        return [_maps({}, item, kind) for item in new if "$patch" not in item]
    merged = {item[key]: item for item in old}
    for item in new:
        _item(merged, item, key, kind)
    named = [name for name in dict.fromkeys(item[key] for item in new) if name in merged]
    kept = [name for name in merged if name not in named]
    return [merged[name] for name in _ordered(kept, named, [item[key] for item in old])]


def _ordered(kept: list[Any], named: list[Any], before: list[Any]) -> list[Any]:
    """Merges untouched items with those in the patch, in the real server's order.

    Two existing items keep their order; a new item precedes the next untouched one.
    """
    result: list[Any] = []
    kept, named = list(kept), list(named)
    while kept and named:
        first = kept[0] in before and named[0] in before and before.index(kept[0]) < before.index(named[0])
        result.append((kept if first else named).pop(0))
    return result + kept + named


def merge_key(field: str, kind: str) -> str | None:
    """Returns the merge key of a list's items, or None if the list is replaced as a whole."""
    if field == "ports":
        return "port" if kind == "Service" else "containerPort"
    return _KEYS.get(field)


def _item(merged: dict[Any, Any], item: Obj, key: str, kind: str) -> None:
    if key not in item:
        raise bad_request(f"map: {item} does not contain declared merge key: {key}")
    if item.get("$patch") == "delete":
        merged.pop(item[key], None)
    else:
        merged[item[key]] = _maps(merged.get(item[key], {}), item, kind)
