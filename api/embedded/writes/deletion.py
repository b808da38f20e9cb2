"""Deletion of one object: removed at once, or marked for its finalizers or kubelet.

Pure: from a record to a marked object. Called by change.py and gc.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from api.embedded.kinds import ServedKind
from api.embedded.meta import rfc3339
from api.embedded.status import Obj, ResourceRef, invalid, other_object, unsupported
from api.embedded.table import StoredObject

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_POLICIES = {None: None, "": None, "Background": "", "Foreground": FOREGROUND, "Orphan": ORPHAN}

_OPTIONS = ResourceRef("meta.k8s.io", "options", "DeleteOptions")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The body and parameters of a DELETE."""

    propagation: str | None = None
    """Background, Foreground or Orphan."""
    grace: int | None = None
    """In seconds."""
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


def check_preconditions(kind: ServedKind, record: StoredObject, options: DeleteOptions) -> None:
    """Raises status 409 if the object is not the one that the preconditions name."""
    name = record.obj["metadata"]["name"]
    if options.uid and options.uid != record.uid:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({record.uid})"
        raise other_object(kind, name, f"{why}. The object might have been deleted and then recreated")
    if options.resource_version and options.resource_version != str(record.rv):
        version = options.resource_version
        why = f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({record.rv})"
        raise other_object(kind, name, f"{why}. The object might have been modified")


def marked(kind: ServedKind, record: StoredObject, options: DeleteOptions, clock: float) -> tuple[Obj, bool]:
    """Returns a marked copy of the object, and whether it stays. Kinds with a grace period are marked even if removed."""
    obj = record.obj
    meta = dict(obj["metadata"])
    finalizers = _finalizers(kind, meta, options)
    grace = kind.rules.grace(obj, options.grace)
    stays = bool(finalizers or grace or kind.plural == "namespaces")
    if not stays and grace is None:
        return {**obj, "metadata": meta}, False
    meta["finalizers"] = finalizers
    if not finalizers:
        del meta["finalizers"]
    _mark(meta, grace or 0, clock)
    if kind.plural == "namespaces":
        del meta["deletionGracePeriodSeconds"]
        return {**obj, "metadata": meta, "status": {**obj.get("status", {}), "phase": "Terminating"}}, True
    return {**obj, "metadata": meta}, stays


def _finalizers(kind: ServedKind, meta: Obj, options: DeleteOptions) -> list[str]:
    if options.propagation not in _POLICIES:
        allowed = ["Foreground", "Background", "Orphan", "nil"]
        raise invalid(_OPTIONS, "", [unsupported("propagationPolicy", options.propagation, allowed)])
    wanted = _POLICIES[options.propagation]
    finalizers = list(meta.get("finalizers") or ())
    if wanted is None:  # no policy given: existing finalizers stay, else the kind's default applies
        kept = any(item in (ORPHAN, FOREGROUND) for item in finalizers)
        return finalizers if kept or not kind.rules.orphans_by_default() else [*finalizers, ORPHAN]
    rest = [item for item in finalizers if item not in (ORPHAN, FOREGROUND)]
    return [*rest, wanted] if wanted else rest


def _mark(meta: Obj, grace: int, clock: float) -> None:
    if "deletionTimestamp" in meta:
        if grace >= meta.get("deletionGracePeriodSeconds", 0):
            return  # a grace period can only be shortened
    elif "generation" in meta:
        meta["generation"] += 1
    meta["deletionTimestamp"] = rfc3339(clock + grace)
    meta["deletionGracePeriodSeconds"] = grace


def is_over(obj: Obj) -> bool:
    """Reports whether the object is being deleted and neither a finalizer nor a grace period holds it."""
    meta = obj["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers"):
        return False
    if (obj.get("spec") or {}).get("finalizers") and obj["kind"] == "Namespace":
        return False
    return bool(meta.get("deletionGracePeriodSeconds", 0) == 0)
