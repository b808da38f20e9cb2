"""Reads CRDs and webhook configurations from the modules of JobSet and LeaderWorkerSet, with patches applied.

The functions for one module know its folders and run at build time; `at_url` changes the configurations to loopback URLs at
start. Instead of kustomize: the two webhook patches of a module are JSON patches that replace whole webhooks. Anything else
is an error, so that changes in a new version are noticed.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from api.text.manifests import read
from hack.controlplane.errors import BuildError

Manifest = dict[str, Any]


def jobset_crds(module: Path) -> list[Manifest]:
    """Returns the CRDs without the conversion webhook that the module's kustomization adds."""
    return [crd for path in sorted((module / "config/components/crd/bases").glob("*.yaml")) for crd in read(path)]


def jobset_webhooks(module: Path) -> list[Manifest]:
    """Returns the mutating and validating configuration, with patches and names as in an installation."""
    folder = module / "config/components/webhook"
    return _registrations(folder / "manifests.yaml", folder / "patches", "jobset-")


def lws_crds(module: Path) -> list[Manifest]:
    """Returns the CRDs of all kinds that the module's controllers watch."""
    return [crd for path in sorted((module / "config/crd/bases").glob("*.yaml")) for crd in read(path)]


def lws_webhooks(module: Path) -> list[Manifest]:
    """Returns LeaderWorkerSet's mutating and validating configuration, patched and named likewise."""
    folder = module / "config/webhook"
    return _registrations(folder / "manifests.yaml", folder, "lws-")


def _registrations(path: Path, patches: Path, prefix: str) -> list[Manifest]:
    by_kind = {
        "MutatingWebhookConfiguration": read(patches / "mutating-patch.yaml")[0],
        "ValidatingWebhookConfiguration": read(patches / "validating-patch.yaml")[0],
    }
    registrations = [patched(document, by_kind[document["kind"]]) for document in read(path)]
    for registration in registrations:
        registration["metadata"]["name"] = prefix + registration["metadata"]["name"]
    return registrations


def patched(registration: Manifest, operations: Iterable[Manifest]) -> Manifest:
    """Returns a copy with replaced webhooks: `{op: replace, path: /webhooks/1, value: ...}`. Raises BuildError for others."""
    result = copy.deepcopy(registration)
    for operation in operations:
        place = re.fullmatch(r"/webhooks/(\d+)", operation["path"])
        if operation["op"] != "replace" or place is None or int(place.group(1)) >= len(result["webhooks"]):
            raise BuildError(f"{registration['metadata']['name']}: cannot apply {operation['op']} {operation['path']}")
        result["webhooks"][int(place.group(1))] = copy.deepcopy(operation["value"])
    return result


def at_url(registrations: Sequence[Manifest], base: str, ca: bytes) -> list[Manifest]:
    """Returns copies that call webhooks at `base` + path instead of a Service, and trust the PEM `ca`."""
    result = copy.deepcopy(list(registrations))
    for webhook in (webhook for registration in result for webhook in registration["webhooks"]):
        path = webhook["clientConfig"]["service"].get("path", "/")
        webhook["clientConfig"] = {"url": base + path, "caBundle": base64.b64encode(ca).decode()}
    return result
