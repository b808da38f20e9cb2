"""Object metadata as the API server manages it: names, uids, fields that clients may set, fields that never change.

change.py calls it for every write. rules/ has the rules of single kinds.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from api.embedded.kinds import ServedKind
from api.embedded.status import (
    Cause,
    Obj,
    StatusError,
    bad_request,
    forbidden_field,
    invalid,
    invalid_value,
    required,
    shown,
)

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_SUBDOMAIN_WHY = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_FROM_CLIENT = ("name", "generateName", "namespace", "labels", "annotations", "ownerReferences", "finalizers")
_SYSTEM = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName")
# API groups whose object names may be other than DNS subdomains (such as system:masters).
_FREE_NAMES = frozenset(("rbac.authorization.k8s.io",))


def rfc3339(seconds: float) -> str:
    """Formats epoch seconds as the API server does (whole seconds, UTC)."""
    return _rfc3339(int(seconds))


@lru_cache(maxsize=16)
def _rfc3339(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _uid(rng: random.Random) -> str:
    """Returns a random UUID (version 4), faster than the uuid module, which matters for loads of 100,000 objects."""
    text = f"{rng.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def meta_of(obj: Obj) -> Obj:
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        meta = obj["metadata"] = {}
    return meta


def match_request(kind: ServedKind, obj: Obj, version: str, namespace: str | None, name: str | None) -> None:
    """Raises status 400 unless the body's apiVersion, kind, namespace and name match the request; sets missing ones."""
    _match_type(kind, obj, version)
    meta = meta_of(obj)
    if kind.namespaced and namespace:
        if meta.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    elif not kind.namespaced:
        meta.pop("namespace", None)
    if name is not None and not meta.get("name"):
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if name is not None and meta.setdefault("name", name) != name:
        given = meta["name"]
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def _match_type(kind: ServedKind, obj: Obj, version: str) -> None:
    expected = kind.in_version(version)
    if kind.custom:
        _match_custom_type(kind, obj, expected)
        return
    given = obj.setdefault("apiVersion", expected)
    if given != expected:
        raise _mistyped(kind, obj.get("kind") or kind.kind, given)
    if obj.setdefault("kind", kind.kind) != kind.kind:
        raise _mistyped(kind, obj["kind"], given)
    obj["apiVersion"] = kind.api_version


def _match_custom_type(kind: ServedKind, obj: Obj, expected: str) -> None:
    """Raises StatusError unless a custom object states its matching type."""
    for field, name in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not obj.get(field):
            what = f"the object provided is unrecognized (must be of type {kind.kind})"
            raise bad_request(f"{what}: Object '{name}' is missing in '{shown(obj)}'")
    if obj["apiVersion"] != expected:
        given = obj["apiVersion"]
        raise bad_request(f"the API version in the data ({given}) does not match the expected API version ({expected})")
    if obj["kind"] != kind.kind:
        other = replace(kind, kind=obj["kind"])
        name = str(meta_of(obj).get("name", ""))
        raise invalid(other, name, [invalid_value("kind", obj["kind"], f"must be {kind.kind}")])
    obj["apiVersion"] = kind.api_version


def _mistyped(kind: ServedKind, kind_name: str, api_version: str) -> StatusError:
    version = api_version.rpartition("/")[2]
    what = f'{kind_name} in version "{version}" cannot be handled as a {kind.kind}'
    return bad_request(
        f'{what}: no kind "{kind_name}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'
    )


def wipe(obj: Obj) -> None:
    """Removes all metadata that a client cannot set on creation."""
    meta = meta_of(obj)
    if str(meta.get("resourceVersion") or "0") != "0":
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    obj["metadata"] = {name: meta[name] for name in _FROM_CLIENT if meta.get(name)}


def complete(kind: ServedKind, obj: Obj, now: str, rng: random.Random) -> None:
    """Sets name, uid, creationTimestamp and generation of a new object."""
    meta = meta_of(obj)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"][:58] + "".join(rng.choices(_ALPHABET, k=5))
    meta["uid"] = _uid(rng)
    meta["creationTimestamp"] = now
    if kind.generation:
        meta["generation"] = 1


def check_new(kind: ServedKind, obj: Obj) -> list[Cause]:
    meta = meta_of(obj)
    name = meta.get("name", "")
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    if kind.group not in _FREE_NAMES and not (_SUBDOMAIN.match(name) and len(name) <= 253):
        return [invalid_value("metadata.name", name, _SUBDOMAIN_WHY)]
    return _check_labels(meta)


def _check_labels(meta: Obj) -> list[Cause]:
    return [
        invalid_value("metadata.labels", value, "a valid label must be an empty string or at most 63 characters")
        for value in (meta.get("labels") or {}).values()
        if not isinstance(value, str) or len(value) > 63
    ]


def keep_system(new: Obj, old: Obj) -> None:
    """Restores immutable metadata from the old version, and drops fields that only the server sets."""
    meta, was = meta_of(new), old["metadata"]
    for name in _SYSTEM:
        if name in was:
            meta[name] = was[name]
        else:
            meta.pop(name, None)
    for name in ("managedFields", "selfLink"):
        meta.pop(name, None)
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in meta and not meta[name]:
            del meta[name]


def check_change(new: Obj, old: Obj) -> list[Cause]:
    meta, was = meta_of(new), old["metadata"]
    causes = _check_labels(meta) if meta.get("labels") != was.get("labels") else []
    added = [item for item in meta.get("finalizers") or () if item not in (was.get("finalizers") or ())]
    if added and was.get("deletionTimestamp"):
        listed = ", ".join(f'"{item}"' for item in added)
        why = (
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
        )
        causes.append(forbidden_field("metadata.finalizers", why))
    return causes


def without(obj: Obj, *names: str) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in names}
