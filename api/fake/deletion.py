"""What a deletion does to one object: removed at once, or marked and left to its finalizers or its kubelet.

Pure: record in, marked object or None out. Called by change.py and gc.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from api.fake.kinds import ServedKind
from api.fake.meta import rfc3339
from api.fake.status import Obj, ResourceRef, invalid, other_object, unsupported
from api.fake.table import StoredObject

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_POLICIES = {None: None, "": None, "Background": "", "Foreground": FOREGROUND, "Orphan": ORPHAN}

_OPTIONS = ResourceRef("meta.k8s.io", "options", "DeleteOptions")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The body and parameters of a DELETE. `grace` in seconds; `propagation` Background, Foreground or Orphan."""

    propagation: str | None = None
    grace: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


def check_preconditions(kind: ServedKind, record: StoredObject, options: DeleteOptions) -> None:
    """409 when the object is another one than the caller means."""
    name = record.obj["metadata"]["name"]
    if options.uid and options.uid != record.uid:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({record.uid})"
        raise other_object(kind, name, f"{why}. The object might have been deleted and then recreated")
    if options.resource_version and options.resource_version != str(record.rv):
        asked = options.resource_version
        why = f"the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion in record ({record.rv})"
        raise other_object(kind, name, f"{why}. The object might have been modified")


def marked(kind: ServedKind, record: StoredObject, options: DeleteOptions, clock: float) -> tuple[Obj, bool]:
    """Returns a copy of the object as it is now, and whether it stays for a while. A kind with grace is marked even if not."""
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
    if wanted is None:  # not said: what stands there stays, else the kind's own default
        kept = any(item in (ORPHAN, FOREGROUND) for item in finalizers)
        return finalizers if kept or not kind.rules.orphans_by_default() else [*finalizers, ORPHAN]
    rest = [item for item in finalizers if item not in (ORPHAN, FOREGROUND)]
    return [*rest, wanted] if wanted else rest


def _mark(meta: Obj, grace: int, clock: float) -> None:
    if "deletionTimestamp" in meta:
        if grace >= meta.get("deletionGracePeriodSeconds", 0):
            return  # a grace period only ever gets shorter
    elif "generation" in meta:
        meta["generation"] += 1
    meta["deletionTimestamp"] = rfc3339(clock + grace)
    meta["deletionGracePeriodSeconds"] = grace


def is_over(obj: Obj) -> bool:
    """An object whose deletion began and that nothing holds any more."""
    meta = obj["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers"):
        return False
    if (obj.get("spec") or {}).get("finalizers") and obj["kind"] == "Namespace":
        return False
    return bool(meta.get("deletionGracePeriodSeconds", 0) == 0)
