"""The objects that a cluster needs of JobSet and of LeaderWorkerSet, taken from their own modules: CRDs, and webhook
registrations with their patches applied.

Reading (at build time) knows the module's folders; `at_url` (at start) points the registrations at a webhook on
loopback. No kustomize: a module's two webhook patches are JSON patches that replace whole webhooks, and anything else
is an error, so that an update is noticed.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from api.manifests import read
from hack.controlplane.errors import BuildError

Manifest = dict[str, Any]


def jobset_crds(module: Path) -> list[Manifest]:
    """Returns the plain CRDs, without the conversion webhook that the module's kustomization would add."""
    return [crd for path in sorted((module / "config/components/crd/bases").glob("*.yaml")) for crd in read(path)]


def jobset_webhooks(module: Path) -> list[Manifest]:
    """Returns the mutating and the validating registration, patched and named as an installation has them."""
    folder = module / "config/components/webhook"
    return _registrations(folder / "manifests.yaml", folder / "patches", "jobset-")


def lws_crds(module: Path) -> list[Manifest]:
    """Returns all kinds that the module's controllers watch."""
    return [crd for path in sorted((module / "config/crd/bases").glob("*.yaml")) for crd in read(path)]


def lws_webhooks(module: Path) -> list[Manifest]:
    """Returns the same of LeaderWorkerSet."""
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
    """Returns a copy with whole webhooks replaced: `{op: replace, path: /webhooks/1, value: ...}`. Others raise BuildError."""
    result = copy.deepcopy(registration)
    for operation in operations:
        place = re.fullmatch(r"/webhooks/(\d+)", operation["path"])
        if operation["op"] != "replace" or place is None or int(place.group(1)) >= len(result["webhooks"]):
            raise BuildError(f"{registration['metadata']['name']}: cannot apply {operation['op']} {operation['path']}")
        result["webhooks"][int(place.group(1))] = copy.deepcopy(operation["value"])
    return result


def at_url(registrations: Sequence[Manifest], base: str, ca: bytes) -> list[Manifest]:
    """Copies whose webhooks are called at `base` + the path, trusting the PEM `ca`, instead of through a Service."""
    result = copy.deepcopy(list(registrations))
    for webhook in (webhook for registration in result for webhook in registration["webhooks"]):
        path = webhook["clientConfig"]["service"].get("path", "/")
        webhook["clientConfig"] = {"url": base + path, "caBundle": base64.b64encode(ca).decode()}
    return result
