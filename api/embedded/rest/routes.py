"""Parses paths and parameters of requests. Called by http.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from api.embedded.request import RequestTarget, WriteOptions
from api.embedded.status import ResourceRef, bad_request, invalid, no_such_path, unsupported
from api.embedded.store import ObjectStorage

_LONGEST_NUMBER: Final = 19


@dataclass(frozen=True, slots=True)
class Route:
    """The parts of `/api/v1/...` or `/apis/GROUP/VERSION/...`."""

    group: str
    version: str
    plural: str
    namespace: str | None
    name: str | None
    subresource: str

    def target(self, store: ObjectStorage) -> RequestTarget:
        """Returns the target. Raises status 404 unless the resource is served in that version and scope."""
        if not any(kind.group == self.group and self.version in kind.served for kind in store.kinds.values()):
            raise NoPage
        kind = store.kind(self)
        if self.version not in kind.served or (self.namespace and not kind.namespaced):
            raise no_such_path()
        if self.name and kind.namespaced and not self.namespace:
            raise no_such_path()
        if self.subresource and self.subresource not in kind.subresources:
            raise no_such_path()
        return RequestTarget(kind, self.version, self.namespace, self.name, self.subresource)


class NoPage(Exception):
    """The path is outside all API groups; the real server answers in plain text."""


def parse(path: str) -> Route:
    """Parses a resource path. Raises NoPage or status 404 for other paths."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise NoPage
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else None
    return Route(group, version, rest[0], namespace, name, rest[2] if len(rest) > 2 else "")


def flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("true", "1")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER


def number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not _is_number(text):
        raise bad_request(f"{name}: Invalid value: {text!r}: must be a whole number")
    return int(text)


def version(query: Mapping[str, str]) -> int | None:
    """Returns the parameter resourceVersion, or None. Raises status 400 if it is not a number."""
    text = query.get("resourceVersion", "")
    if text and not _is_number(text):
        raise bad_request(
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text) if text else None


def options(query: Mapping[str, str], agent: str, what: str) -> WriteOptions:
    """Returns the options; `what` is Create, Update or Patch. The default fieldManager is the User-Agent's name."""
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        raise invalid(
            ResourceRef("meta.k8s.io", "options", f"{what}Options"), "", [unsupported("dryRun", [dry_run], ["All"])]
        )
    manager = query.get("fieldManager") or agent.partition("/")[0][:128] or "unknown"
    strict = query.get("fieldValidation") == "Strict"
    return WriteOptions(dry_run == "All", manager, flag(query, "force"), strict)
