"""CRDs of job kinds that are installed separately, without a schema: what tests of their mechanics need."""

from __future__ import annotations

from typing import Any

from api.kube.resources import Resource


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
