"""For tests: CRDs that we ship, those of job kinds that are installed separately, without a schema, and built-in kinds."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final

import msgspec

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.registry import BY_FRAMEWORK
from api.kube.resources import Resource
from api.text.manifests import read_one

SHIPPED: Final = Path(__file__).resolve().parents[1] / "config" / "crd"


@functools.cache
def _as_json(name: str) -> bytes:
    return msgspec.json.encode(read_one(SHIPPED / f"{name}.yaml"))


def shipped(name: str) -> dict[str, Any]:
    """The CRD of that file in config/crd, a new object each time. Its YAML, of up to 76 kB, is read once."""
    crd: dict[str, Any] = msgspec.json.decode(_as_json(name))
    return crd


def adapter(framework: str) -> DeclaredJob:
    """The built-in kind of that name, such as `ray.io/raycluster`."""
    found = BY_FRAMEWORK[framework]
    assert isinstance(found, DeclaredJob)
    return found


def crd_of(resource: Resource) -> dict[str, Any]:
    """A CRD that takes any object of the kind, with the status subresource."""
    return {
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},  # groups of *.k8s.io are protected
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "listKind": f"{resource.kind}List",
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    },
                }
            ],
        },
    }
