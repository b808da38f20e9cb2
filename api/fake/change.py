"""The way of one write: from the body that came in to the object that is stored, in the real server's order.

Each operation is a generator that yields a `Review` where the real server would ask admission webhooks (first to mutate,
then to validate) and gets the object back. `Store` runs it without webhooks, `calls.py` with them; so both take the very
same way. A write that meets a newer version starts over (at most five times) unless it named a resourceVersion.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol

from api.fake import meta
from api.fake.apply import apply, take_over
from api.fake.deletion import DeleteOptions, check_preconditions, is_over, marked
from api.fake.fields import ListType, builtin_lists, schema_lists
from api.fake.kinds import Kind
from api.fake.patch import clone, json_patch, merge_patch
from api.fake.rules.base import Cluster
from api.fake.status import (
    MODIFIED,
    Cause,
    Obj,
    Refusal,
    Resource,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_resource,
    invalid_value,
    no_such_path,
    not_found,
    required,
    unsupported_media,
)
from api.fake.strategic import strategic_merge
from api.fake.table import Owner, Owners, Record, key_of

JSON, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
_ATTEMPTS = 5
_MAPS = frozenset(("labels", "annotations", "nodeSelector", "matchLabels", "limits", "requests"))


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about. `version` is the one in its path."""

    kind: Kind
    version: str
    namespace: str | None = None
    name: str | None = None
    subresource: str = ""

    @property
    def key(self) -> str:
        return key_of(self.namespace, self.name or "")


@dataclass(frozen=True, slots=True)
class Options:
    """Parameters of a write. `manager` is the fieldManager; `strict` refuses unknown fields of custom kinds."""

    dry_run: bool = False
    manager: str = "unknown"
    force: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Review:
    """A point where webhooks are asked. The generator goes on with the object that comes back."""

    mutating: bool
    operation: str  # CREATE, UPDATE, DELETE
    target: Target
    obj: Obj | None
    old: Obj | None
    dry_run: bool


class Desk(Cluster, Protocol):
    """What a write needs of the store."""

    def record(self, kind: Kind, key: str) -> Record | None: ...
    def stamp(self, kind: Kind, obj: Obj) -> None: ...
    def write(self, kind: Kind, record: Record) -> Record: ...
    def erase(self, kind: Kind, record: Record) -> Record: ...
    def clock(self) -> float: ...


Steps = Generator[Review, Obj, Record]


def create(desk: Desk, target: Target, body: Obj, options: Options) -> Steps:
    """POST. The body becomes the server's own."""
    kind = target.kind
    meta.match_request(kind, body, target.version, target.namespace, None)
    _check_namespace(desk, target, str(meta.meta_of(body).get("name") or ""))
    obj = _decoded(kind, body, target, options)
    meta.wipe(obj)
    kind.rules.admit_create(desk, obj)
    obj = yield from _mutated(target, "CREATE", obj, None, options)
    _complete_new(desk, kind, obj)
    named = Target(kind, target.version, target.namespace, obj["metadata"]["name"])
    obj = yield Review(False, "CREATE", named, obj, None, options.dry_run)
    if desk.record(kind, named.key):
        raise already_exists(kind, obj["metadata"]["name"])
    return _finish(desk, kind, Record(named.key, obj, 0, options.manager), options)


def _check_namespace(desk: Desk, target: Target, name: str) -> None:
    """404 when the namespace is missing, 403 while it goes."""
    if not target.kind.namespaced:
        return
    if not target.namespace:
        raise bad_request("an empty namespace may not be set during creation")
    found = desk.find("", "namespaces", target.namespace)
    if found is None:
        raise not_found(_NAMESPACE, target.namespace)
    if "deletionTimestamp" in found["metadata"]:
        why = f"unable to create new content in namespace {target.namespace} because it is being terminated"
        ending = Cause(
            "NamespaceTerminating", f"namespace {target.namespace} is being terminated", "metadata.namespace"
        )
        raise forbidden(target.kind, name, why, [ending])


_NAMESPACE = Resource("", "namespaces", "Namespace")


def _decoded(kind: Kind, obj: Obj, target: Target, options: Options) -> Obj:
    """Prunes and defaults in place. 400 for unknown fields when the request is strict."""
    meta.meta_of(obj)
    gone = _normalize(kind, obj, target.version)
    if gone and options.strict:
        unknown = ", ".join(f'unknown field "{path}"' for path in sorted(gone))
        what = f'{kind.kind} in version "{target.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{what}: strict decoding error: {unknown}")
    return obj


def _normalize(kind: Kind, obj: Obj, version: str) -> list[str]:
    """The paths of the fields that were pruned."""
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


def _mutated(
    target: Target, operation: str, obj: Obj, old: Obj | None, options: Options
) -> Generator[Review, Obj, Obj]:
    """Asks the mutating webhooks; what they change is decoded anew."""
    left = yield Review(True, operation, target, obj, old, options.dry_run)
    if left is not obj:
        _normalize(target.kind, left, target.version)
    return left


def _tidy(tree: Any) -> None:
    """Drops null and empty lists as the built-in types do when they are written; empty objects stay, but for maps."""
    if isinstance(tree, dict):
        for name in list(tree):
            value = tree[name]
            if value is None or value == [] or (value == {} and name in _MAPS):
                del tree[name]
            elif isinstance(value, (dict, list)):
                _tidy(value)
    elif isinstance(tree, list):
        for item in tree:
            if isinstance(item, (dict, list)):
                _tidy(item)


def _complete_new(desk: Desk, kind: Kind, obj: Obj) -> None:
    desk.stamp(kind, obj)
    if kind.status and kind.custom:
        obj.pop("status", None)
    causes = meta.check_new(kind, obj)
    if not causes:
        kind.rules.prepare_create(desk, obj)
        causes = _check_schema(kind, obj) or kind.rules.check_create(desk, obj)
    if causes:
        raise invalid(kind, obj["metadata"].get("name", ""), causes)


def _check_schema(kind: Kind, obj: Obj) -> list[Any]:
    schema = kind.schemas.get(kind.version)
    return schema.check(obj) if schema is not None else []


def _finish(desk: Desk, kind: Kind, record: Record, options: Options) -> Record:
    return record if options.dry_run else desk.write(kind, record)


def update(desk: Desk, target: Target, body: Obj, options: Options) -> Steps:
    """PUT on an object or on its status."""
    meta.match_request(target.kind, body, target.version, target.namespace, target.name)
    body = _decoded(target.kind, body, target, options)
    return (yield from _change(desk, target, options, lambda record: clone(body)))


def patch(desk: Desk, target: Target, body: Any, content: str, options: Options) -> Steps:
    """PATCH in one of the four forms, on an object or on its status."""
    kind = target.kind
    if content == APPLY:
        return (yield from _apply(desk, target, body, options))
    if (content == STRATEGIC and kind.custom) or content not in (JSON, MERGE, STRATEGIC):
        forms = (JSON, MERGE, APPLY) if kind.custom else (JSON, MERGE, STRATEGIC, APPLY)
        raise unsupported_media(forms)

    def patched(record: Record) -> Obj:
        old = {**record.obj, "apiVersion": kind.in_version(target.version)}
        obj = _patched(kind, old, body, content)
        meta.match_request(kind, obj, target.version, target.namespace, target.name)
        return _decoded(kind, obj, target, options)

    return (yield from _change(desk, target, options, patched))


def _patched(kind: Kind, old: Obj, body: Any, content: str) -> Obj:
    if content == JSON:
        return json_patch(old, body)
    if content == STRATEGIC:
        return dict(clone(strategic_merge(old, body, kind.kind)))
    if not isinstance(body, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}")
    return dict(clone(merge_patch(old, body)))


def _change(desk: Desk, target: Target, options: Options, make: Any) -> Steps:
    kind = target.kind
    for _ in range(_ATTEMPTS):
        old = _existing(desk, target)
        obj = make(old)
        if not target.subresource:
            kind.rules.admit_update(desk, obj)
        obj = yield from _mutated(target, "UPDATE", obj, old.obj, options)
        _check_version(target, old, obj)
        _complete_change(desk, target, obj, old.obj)
        obj = yield Review(False, "UPDATE", target, obj, old.obj, options.dry_run)
        if desk.record(kind, target.key) is old:
            owner = Owner(options.manager, target.subresource, False)
            owners = take_over(old.owners, owner, old.obj, obj, lists_of(kind))
            writer = old.writer if target.subresource else options.manager
            return _store_change(desk, kind, old, Record(target.key, obj, 0, writer, owners), options)
    raise conflict(kind, target.name or "", MODIFIED)


def _existing(desk: Desk, target: Target) -> Record:
    found = desk.record(target.kind, target.key)
    if found is None:
        raise not_found(target.kind, target.name or "")
    if target.subresource == "status" and not target.kind.status:
        raise no_such_path()
    return found


def _check_version(target: Target, old: Record, obj: Obj) -> None:
    """409 on a stale resourceVersion or another uid; 422 where a version must be named."""
    kind, name = target.kind, target.name or ""
    given = str(obj["metadata"].get("resourceVersion") or "")
    if not given or given == "0":
        if not kind.unconditional:
            why = "must be specified for an update"
            raise invalid_resource(kind, name, [invalid_value("metadata.resourceVersion", 0, why)])
    elif not given.isdigit():
        raise bad_request(f'resourceVersion: Invalid value: "{given}": strconv.ParseUint: invalid syntax')
    elif given != str(old.rv):
        raise conflict(kind, name, MODIFIED)
    uid = obj["metadata"].get("uid")
    if uid and uid != old.uid:
        where = f"StorageError: invalid object, Code: 4, Key: /registry/{kind.plural}/{target.key}, ResourceVersion: 0"
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old.uid}"
        raise conflict(kind, name, f"{where}, AdditionalErrorMsg: {why}")


def _complete_change(desk: Desk, target: Target, obj: Obj, old: Obj) -> None:
    """Isolation of the status, system metadata, generation, and the checks."""
    kind = target.kind
    _isolate(target, obj, old)
    meta.keep_system(obj, old)
    if not target.subresource:
        kind.rules.default(obj)
        kind.rules.prepare_update(desk, obj, old)
        if kind.generation and _spec(kind, obj) != _spec(kind, old):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    _check_change(desk, target, obj, old)


def _check_change(desk: Desk, target: Target, obj: Obj, old: Obj) -> None:
    kind, name = target.kind, target.name or ""
    causes = [*meta.check_change(obj, old), *_check_schema(kind, obj)]
    if target.subresource:
        judged: list[Cause] = []
    else:
        causes += kind.rules.check_transition(obj, old)
        judged = kind.rules.check_update(desk, obj, old) if not (causes and kind.rules.webhook) else []
    if causes and kind.rules.webhook:
        raise invalid(kind, name, causes)
    if causes or judged:
        raise _refused(kind, name, [*causes, *judged])


def _refused(kind: Kind, name: str, causes: list[Cause]) -> Refusal:
    """Invalid; in a webhook's name where a webhook is who says so in a real cluster."""
    refusal = invalid(kind, name, causes)
    if kind.rules.webhook:
        message = f'admission webhook "{kind.rules.webhook}" denied the request: {refusal.message}'
        return Refusal(refusal.status, refusal.reason, message, refusal.details)
    return refusal


def _isolate(target: Target, obj: Obj, old: Obj) -> None:
    if target.subresource == "status":
        kept = {name: value for name, value in old.items() if name != "status"}
        if not target.kind.custom:
            kept["metadata"] = {**obj["metadata"], "ownerReferences": old["metadata"].get("ownerReferences")}
        else:
            kept["metadata"] = dict(old["metadata"])
        given = obj.get("status")
        obj.clear()
        obj.update(kept)
        if given is not None:
            obj["status"] = given
    elif target.kind.status:
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = old["status"]


def _spec(kind: Kind, obj: Obj) -> Obj:
    """What a generation counts the changes of."""
    return meta.without(obj, "metadata", *(("status",) if kind.status else ()))


def _store_change(desk: Desk, kind: Kind, old: Record, record: Record, options: Options) -> Record:
    record.obj["metadata"]["resourceVersion"] = str(old.rv)
    if record.obj == old.obj and record.owners == old.owners:
        return old  # nothing changed: no new version, no event
    if is_over(record.obj):
        return record if options.dry_run else desk.erase(kind, record)
    return _finish(desk, kind, record, options)


def lists_of(kind: Kind) -> ListType:
    schema = kind.schemas.get(kind.version)
    return schema_lists(schema.at) if schema is not None else builtin_lists


def _apply(desk: Desk, target: Target, config: Obj, options: Options) -> Steps:
    kind = target.kind
    _check_config(target, config, options)
    owner = Owner(options.manager, target.subresource, True)
    for _ in range(_ATTEMPTS):
        old = desk.record(kind, target.key)
        obj, owners = apply(old, config, owner, lists_of(kind), force=options.force)
        if old is None:
            if target.subresource:
                raise not_found(kind, target.name or "")
            record = yield from create(desk, target, obj, options)
            return _owned(record, owners)
        obj = _decoded(kind, clone(obj), target, options)
        if not target.subresource:
            kind.rules.admit_update(desk, obj)
        obj = yield from _mutated(target, "UPDATE", obj, old.obj, options)
        _check_version(target, old, obj)
        _complete_change(desk, target, obj, old.obj)
        obj = yield Review(False, "UPDATE", target, obj, old.obj, options.dry_run)
        if desk.record(kind, target.key) is old:
            return _store_change(desk, kind, old, Record(target.key, obj, 0, old.writer, owners), options)
    raise conflict(kind, target.name or "", MODIFIED)


def _check_config(target: Target, config: Any, options: Options) -> None:
    if not isinstance(config, dict):
        raise bad_request("error decoding YAML: an apply configuration must be an object")
    if options.manager in ("", "unknown"):
        what = Resource("meta.k8s.io", "options", "PatchOptions")
        raise invalid(what, "", [required("fieldManager", "is required for apply patch")])
    if not config.get("apiVersion") or not config.get("kind"):
        raise bad_request("invalid object type: /, Kind=")
    meta.match_request(target.kind, config, target.version, target.namespace, target.name)
    if config["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")


def _owned(record: Record, owners: Owners) -> Record:
    """The record of an object that apply created, with its fields' owner. Same object, same version."""
    record.owners = owners
    return record


def _erase(desk: Desk, kind: Kind, record: Record) -> Record:
    """A kind with grace is first marked, even with none left: its watchers see MODIFIED, then DELETED."""
    obj = record.obj
    if "deletionTimestamp" in obj["metadata"]:
        desk.write(kind, record)
        record = Record(record.key, {**obj, "metadata": dict(obj["metadata"])}, 0, record.writer)
    return desk.erase(kind, record)


def delete(desk: Desk, target: Target, options: DeleteOptions) -> Generator[Review, Obj, tuple[Record, bool]]:
    """DELETE: the record as it is after, and whether it is gone."""
    kind = target.kind
    old = _existing(desk, target)
    check_preconditions(kind, old, options)
    yield Review(True, "DELETE", target, None, old.obj, options.dry_run)
    yield Review(False, "DELETE", target, None, old.obj, options.dry_run)
    old = _existing(desk, target)
    check_preconditions(kind, old, options)
    obj, stays = marked(kind, old, options, desk.clock())
    record = Record(old.key, obj, old.rv, old.writer, old.owners)
    if not stays:
        return (record if options.dry_run else _erase(desk, kind, record)), True
    if obj["metadata"] == old.obj["metadata"]:
        return old, False
    return (record if options.dry_run else desk.write(kind, record)), False
