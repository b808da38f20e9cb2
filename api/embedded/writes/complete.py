"""The server's own part of a write, after mutating webhooks: system metadata, status isolation, generation, validation.

Raises StatusError if versions conflict or a field is invalid. Called by change.py; rules/ has the rules of single kinds.
"""

from __future__ import annotations

from api.embedded import meta
from api.embedded.kinds import ServedKind
from api.embedded.request import RequestTarget, WriteStore
from api.embedded.status import (
    MODIFIED,
    Cause,
    Obj,
    StatusError,
    bad_request,
    conflict,
    invalid,
    invalid_resource,
    invalid_value,
)
from api.embedded.table import StoredObject


def complete_new(store: WriteStore, kind: ServedKind, obj: Obj) -> None:
    store.stamp(kind, obj)
    if kind.status and kind.custom:
        obj.pop("status", None)
    causes = meta.check_new(kind, obj)
    if not causes:
        kind.rules.prepare_create(store, obj)
        causes = _check_schema(kind, obj) or kind.rules.check_create(store, obj)
    if causes:
        raise invalid(kind, obj["metadata"].get("name", ""), causes)


def _check_schema(kind: ServedKind, obj: Obj) -> list[Cause]:
    schema = kind.schemas.get(kind.version)
    return schema.check(obj) if schema is not None else []


def check_version(target: RequestTarget, old: StoredObject, obj: Obj) -> None:
    """Raises status 409 for a stale resourceVersion or another uid, 422 if a version is required."""
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


def complete_change(store: WriteStore, target: RequestTarget, obj: Obj, old: Obj) -> None:
    """Completes an update in place: isolates the status, keeps system metadata, sets the generation, and validates."""
    kind = target.kind
    _isolate(target, obj, old)
    meta.keep_system(obj, old)
    if not target.subresource:
        kind.rules.default(obj)
        kind.rules.prepare_update(store, obj, old)
        if kind.generation and _spec(kind, obj) != _spec(kind, old):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    _check_change(store, target, obj, old)


def _check_change(store: WriteStore, target: RequestTarget, obj: Obj, old: Obj) -> None:
    kind, name = target.kind, target.name or ""
    causes = [*meta.check_change(obj, old), *_check_schema(kind, obj)]
    if target.subresource:
        judged: list[Cause] = []
    else:
        causes += kind.rules.check_transition(obj, old)
        judged = kind.rules.check_update(store, obj, old) if not (causes and kind.rules.webhook) else []
    if causes and kind.rules.webhook:
        raise invalid(kind, name, causes)
    if causes or judged:
        raise _refused(kind, name, [*causes, *judged])


def _refused(kind: ServedKind, name: str, causes: list[Cause]) -> StatusError:
    """Returns status 422, worded as a webhook's denial if a webhook validates this kind in a real cluster."""
    refusal = invalid(kind, name, causes)
    if kind.rules.webhook:
        message = f'admission webhook "{kind.rules.webhook}" denied the request: {refusal.message}'
        return StatusError(refusal.status, refusal.reason, message, refusal.details)
    return refusal


def _isolate(target: RequestTarget, obj: Obj, old: Obj) -> None:
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


def _spec(kind: ServedKind, obj: Obj) -> Obj:
    """Returns the part of the object whose changes increment the generation."""
    return meta.without(obj, "metadata", *(("status",) if kind.status else ()))
