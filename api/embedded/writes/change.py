"""The steps of one write, from the request body to the stored object, in the real server's order.

Each operation is a generator. It yields a `Review` where the real server calls admission webhooks (mutating, then validating)
and receives the object back. `ObjectStorage` runs it without webhooks, `calls.py` with them, so both take the same steps. A
write that meets a newer version is retried up to five times, unless it has a resourceVersion.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from api.embedded import meta
from api.embedded.kinds import ServedKind
from api.embedded.patch import clone, json_patch, merge_patch
from api.embedded.request import RequestTarget, Review, Steps, WriteOptions, WriteStore
from api.embedded.status import (
    MODIFIED,
    Cause,
    Obj,
    ResourceRef,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    no_such_path,
    not_found,
    required,
    unsupported_media,
)
from api.embedded.table import FieldManager, Owners, StoredObject
from api.embedded.writes.apply import apply, take_over
from api.embedded.writes.complete import check_version, complete_change, complete_new
from api.embedded.writes.decode import decoded, normalize
from api.embedded.writes.deletion import DeleteOptions, check_preconditions, is_over, marked
from api.embedded.writes.fields import ListType, builtin_lists, schema_lists
from api.embedded.writes.strategic import strategic_merge

JSON, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
_ATTEMPTS = 5


def create(store: WriteStore, target: RequestTarget, body: Obj, options: WriteOptions) -> Steps:
    """Creates an object (POST). The store takes ownership of the body."""
    kind = target.kind
    meta.match_request(kind, body, target.version, target.namespace, None)
    _check_namespace(store, target, str(meta.meta_of(body).get("name") or ""))
    obj = decoded(kind, body, target.version, strict=options.strict)
    meta.wipe(obj)
    kind.rules.admit_create(store, obj)
    obj = yield from _mutated(target, "CREATE", obj, None, options)
    complete_new(store, kind, obj)
    named = RequestTarget(kind, target.version, target.namespace, obj["metadata"]["name"])
    obj = yield Review(False, "CREATE", named, obj, None, options.dry_run)
    if store.record(kind, named.key):
        raise already_exists(kind, obj["metadata"]["name"])
    return _finish(store, kind, StoredObject(named.key, obj, 0, options.manager), options)


def _check_namespace(store: WriteStore, target: RequestTarget, name: str) -> None:
    """Raises status 404 if the namespace is missing, 403 if it is being deleted."""
    if not target.kind.namespaced:
        return
    if not target.namespace:
        raise bad_request("an empty namespace may not be set during creation")
    namespace = store.find("", "namespaces", target.namespace)
    if namespace is None:
        raise not_found(_NAMESPACE, target.namespace)
    if "deletionTimestamp" in namespace["metadata"]:
        why = f"unable to create new content in namespace {target.namespace} because it is being terminated"
        ending = Cause(
            "NamespaceTerminating", f"namespace {target.namespace} is being terminated", "metadata.namespace"
        )
        raise forbidden(target.kind, name, why, [ending])


_NAMESPACE = ResourceRef("", "namespaces", "Namespace")


def _mutated(
    target: RequestTarget, operation: str, obj: Obj, old: Obj | None, options: WriteOptions
) -> Generator[Review, Obj, Obj]:
    """Calls mutating webhooks, and decodes the object again if they changed it."""
    left = yield Review(True, operation, target, obj, old, options.dry_run)
    if left is not obj:
        normalize(target.kind, left, target.version)
    return left


def _finish(store: WriteStore, kind: ServedKind, record: StoredObject, options: WriteOptions) -> StoredObject:
    return record if options.dry_run else store.write(kind, record)


def update(store: WriteStore, target: RequestTarget, body: Obj, options: WriteOptions) -> Steps:
    """Replaces an object or its status (PUT)."""
    meta.match_request(target.kind, body, target.version, target.namespace, target.name)
    body = decoded(target.kind, body, target.version, strict=options.strict)
    return (yield from _change(store, target, options, lambda record: clone(body)))


def patch(store: WriteStore, target: RequestTarget, body: Any, content: str, options: WriteOptions) -> Steps:
    """Patches an object or its status, with one of the four patch types."""
    kind = target.kind
    if content == APPLY:
        return (yield from _apply(store, target, body, options))
    if (content == STRATEGIC and kind.custom) or content not in (JSON, MERGE, STRATEGIC):
        forms = (JSON, MERGE, APPLY) if kind.custom else (JSON, MERGE, STRATEGIC, APPLY)
        raise unsupported_media(forms)

    def patched(record: StoredObject) -> Obj:
        old = {**record.obj, "apiVersion": kind.in_version(target.version)}
        obj = _patched(kind, old, body, content)
        meta.match_request(kind, obj, target.version, target.namespace, target.name)
        return decoded(kind, obj, target.version, strict=options.strict)

    return (yield from _change(store, target, options, patched))


def _patched(kind: ServedKind, old: Obj, body: Any, content: str) -> Obj:
    if content == JSON:
        return json_patch(old, body)
    if content == STRATEGIC:
        return dict(clone(strategic_merge(old, body, kind.kind)))
    if not isinstance(body, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}")
    return dict(clone(merge_patch(old, body)))


def _change(store: WriteStore, target: RequestTarget, options: WriteOptions, make: Any) -> Steps:
    kind = target.kind
    for _ in range(_ATTEMPTS):
        old = _existing(store, target)
        obj = yield from _admitted(store, target, old, make(old), options)
        if store.record(kind, target.key) is old:
            owner = FieldManager(options.manager, target.subresource, False)
            owners = take_over(old.owners, owner, old.obj, obj, lists_of(kind))
            writer = old.writer if target.subresource else options.manager
            return _store_change(store, kind, old, StoredObject(target.key, obj, 0, writer, owners), options)
    raise conflict(kind, target.name or "", MODIFIED)


def _admitted(
    store: WriteStore, target: RequestTarget, old: StoredObject, obj: Obj, options: WriteOptions
) -> Generator[Review, Obj, Obj]:
    """Passes an update through the kind's rules and the webhooks; returns the object to store."""
    if not target.subresource:
        target.kind.rules.admit_update(store, obj)
    obj = yield from _mutated(target, "UPDATE", obj, old.obj, options)
    check_version(target, old, obj)
    complete_change(store, target, obj, old.obj)
    return (yield Review(False, "UPDATE", target, obj, old.obj, options.dry_run))


def _existing(store: WriteStore, target: RequestTarget) -> StoredObject:
    record = store.record(target.kind, target.key)
    if record is None:
        raise not_found(target.kind, target.name or "")
    if target.subresource == "status" and not target.kind.status:
        raise no_such_path()
    return record


def _store_change(
    store: WriteStore, kind: ServedKind, old: StoredObject, record: StoredObject, options: WriteOptions
) -> StoredObject:
    record.obj["metadata"]["resourceVersion"] = str(old.rv)
    if record.obj == old.obj and record.owners == old.owners:
        return old  # unchanged: no new version and no event
    if is_over(record.obj):
        return record if options.dry_run else store.erase(kind, record)
    return _finish(store, kind, record, options)


def lists_of(kind: ServedKind) -> ListType:
    schema = kind.schemas.get(kind.version)
    return schema_lists(schema.at) if schema is not None else builtin_lists


def _apply(store: WriteStore, target: RequestTarget, config: Obj, options: WriteOptions) -> Steps:
    kind = target.kind
    _check_config(target, config, options)
    owner = FieldManager(options.manager, target.subresource, True)
    for _ in range(_ATTEMPTS):
        old = store.record(kind, target.key)
        obj, owners = apply(old, config, owner, lists_of(kind), force=options.force)
        if old is None:
            if target.subresource:
                raise not_found(kind, target.name or "")
            record = yield from create(store, target, obj, options)
            return _owned(record, owners)
        obj = decoded(kind, clone(obj), target.version, strict=options.strict)
        obj = yield from _admitted(store, target, old, obj, options)
        if store.record(kind, target.key) is old:
            return _store_change(store, kind, old, StoredObject(target.key, obj, 0, old.writer, owners), options)
    raise conflict(kind, target.name or "", MODIFIED)


def _check_config(target: RequestTarget, config: Any, options: WriteOptions) -> None:
    if not isinstance(config, dict):
        raise bad_request("error decoding YAML: an apply configuration must be an object")
    if options.manager in ("", "unknown"):
        what = ResourceRef("meta.k8s.io", "options", "PatchOptions")
        raise invalid(what, "", [required("fieldManager", "is required for apply patch")])
    if not config.get("apiVersion") or not config.get("kind"):
        raise bad_request("invalid object type: /, Kind=")
    meta.match_request(target.kind, config, target.version, target.namespace, target.name)
    if config["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")


def _owned(record: StoredObject, owners: Owners) -> StoredObject:
    """Returns the record of an object that apply created, with field ownership; the same object and version."""
    record.owners = owners
    return record


def _erase(store: WriteStore, kind: ServedKind, record: StoredObject) -> StoredObject:
    """Removes an object. Kinds with a grace period are marked first, so that watches see MODIFIED, then DELETED."""
    obj = record.obj
    if "deletionTimestamp" in obj["metadata"]:
        store.write(kind, record)
        record = StoredObject(record.key, {**obj, "metadata": dict(obj["metadata"])}, 0, record.writer)
    return store.erase(kind, record)


def delete(
    store: WriteStore, target: RequestTarget, options: DeleteOptions
) -> Generator[Review, Obj, tuple[StoredObject, bool]]:
    """Deletes an object. Returns the record afterwards, and whether it was removed."""
    kind = target.kind
    old = _existing(store, target)
    check_preconditions(kind, old, options)
    yield Review(True, "DELETE", target, None, old.obj, options.dry_run)
    yield Review(False, "DELETE", target, None, old.obj, options.dry_run)
    old = _existing(store, target)
    check_preconditions(kind, old, options)
    obj, stays = marked(kind, old, options, store.clock())
    record = StoredObject(old.key, obj, old.rv, old.writer, old.owners)
    if not stays:
        return (record if options.dry_run else _erase(store, kind, record)), True
    if obj["metadata"] == old.obj["metadata"]:
        return old, False
    return (record if options.dry_run else store.write(kind, record)), False
