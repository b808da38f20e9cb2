"""Reads objects from files: YAML or JSON, one or many documents per file, lists unpacked.

Accepts manifests and the output of `kubectl get ... -o yaml`. Does not interpret the objects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from admission.integrations.registry import KINDS
from admission.integrations.sets.sets import SCALED
from api.errors import StowageError
from api.kube.resources import ALL, Resource
from api.meta import object_key
from api.text import manifests
from api.text.manifests import TooLarge

STDIN: Final = Path("-")
_SUFFIXES: Final = (".yaml", ".yml", ".json")

# No API server is asked for these; only their pods matter.
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")

_KNOWN: Final = (*ALL, REPLICA_SETS)
_RESOURCES: Final = {(resource.api_version, resource.kind): resource for resource in _KNOWN}
_BY_KIND: Final = {resource.kind: resource for resource in _KNOWN}


class Unreadable(StowageError):
    """A file is missing or cannot be parsed; the message names it."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object and the name of its file."""

    where: str
    object: dict[str, Any]

    @property
    def kind(self) -> str:
        """The object's kind as given, or an empty string."""
        return str(self.object.get("kind") or "")

    @property
    def name(self) -> str:
        """Kind and key for messages, such as `Job default/train`."""
        meta = self.object.get("metadata")
        meta = meta if isinstance(meta, Mapping) else {}
        key = object_key(meta.get("namespace"), str(meta.get("name") or meta.get("generateName") or ""))
        return f"{self.kind or 'object'} {key}".strip()

    @property
    def resource(self) -> Resource | None:
        """The object's known resource, or None if the kind is unknown or given in an unsupported version."""
        version = str(self.object.get("apiVersion") or "")
        known = _RESOURCES.get((version, self.kind))
        kind = (version.rpartition("/")[0], self.kind)
        if known is None and (adapter := KINDS.get(kind) or SCALED.get(kind)) is not None:
            return adapter.resource if adapter.resource.api_version == version else None
        return known

    @property
    def expected_version(self) -> str | None:
        """The apiVersion in which this kind is supported, or None for an unknown kind."""
        resources = [*(each.resource for each in KINDS.adapters()), *(each.resource for each in SCALED.declared())]
        declared = {resource.kind: resource for resource in resources}
        resource = _BY_KIND.get(self.kind) or declared.get(self.kind)
        return resource.api_version if resource else None


def documents(paths: Sequence[Path]) -> Iterator[Document]:
    """Yields the objects of files, folders (their manifests by name) or standard input (`-`). Raises Unreadable."""
    for path in paths:
        for file in _files(path):
            for obj in parse(_bytes(file), _name(file)):
                yield from unpacked(obj)


def parse(data: bytes, where: str, *, merge: bool = True) -> Iterator[Document]:
    """Yields the documents of one text without empty ones, and without unpacking lists. Raises Unreadable.

    Without `merge`, YAML's merge keys (`<<`) are refused.
    """
    try:
        values = [msgspec.json.decode(data)] if data.lstrip()[:1] == b"{" else None
    except (msgspec.MsgspecError, RecursionError):
        values = None  # YAML may start with a brace too
    try:
        for value in values if values is not None else manifests.documents(data, merge=merge):
            if value is None:
                continue
            if not isinstance(value, dict):
                raise Unreadable(f"{where}: holds {type(value).__name__}, not objects of Kubernetes")
            yield Document(where, value)
    except TooLarge as bad:
        raise Unreadable(f"{where}: {bad}") from None
    except yaml.YAMLError as bad:
        why = " ".join(str(bad).replace('in "<byte string>", ', "in ").split())
        raise Unreadable(f"{where}: neither YAML nor JSON: {why}") from None


def _files(path: Path) -> list[Path]:
    if path == STDIN or not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)


def _bytes(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as bad:
        raise Unreadable(f"{path}: {bad.strerror or bad}") from None


def _name(path: Path) -> str:
    return "standard input" if path == STDIN else str(path)


def unpacked(document: Document) -> Iterator[Document]:
    """Yields the items of a list, else the document. Raises Unreadable for an item that is no object."""
    items = document.object.get("items")
    if not document.kind.endswith("List") or not isinstance(items, list):
        yield document
        return
    # the items of a typed list have no kind
    kind, version = document.kind.removesuffix("List"), document.object.get("apiVersion")
    for item in items:
        if not isinstance(item, dict):
            raise Unreadable(f"{document.where}: the {document.kind} holds {type(item).__name__}, not objects")
        implied = {"apiVersion": version, "kind": kind} if kind else {}
        yield Document(document.where, {**implied, **item})
