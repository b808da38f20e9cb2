"""Returns a kind as a CustomResourceDefinition, and the text of its file.

Kinds of kueue.x-k8s.io are stored in v1beta2 and also served in v1beta1, which the webhook converts: clusters that come from
Kueue have objects stored in v1beta1, and the API server refuses a CRD that lacks a stored version.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import yaml

from api.conversion import V1BETA1
from api.names import CONVERT_PATH, GROUP
from api.schema import Schema
from hack.crds.kinds import Column, CrdKind
from hack.crds.older import older
from hack.crds.structural import structural

HEADER = "# Generated from the types by `python -m hack.crds`: change those, not this.\n"
CATEGORY = "kueue"
# CRDs of groups below k8s.io require an annotation that names their approval, or states that there is none.
_PROTECTED, _APPROVAL = ".k8s.io", "api-approved.kubernetes.io"
_UNAPPROVED = "unapproved, serves manifests that were written for this group"


# Where the API server has objects converted; the webhook process writes its CA here (config/selfsigned).
_CONVERSION: dict[str, Any] = {
    "conversion": {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {
                "service": {"namespace": "stowage-system", "name": "stowage-webhook", "path": CONVERT_PATH}
            },
        },
    }
}


def file_name(kind: CrdKind) -> str:
    """Returns the name of the kind's file in config/crd."""
    return f"{kind.group}_{kind.plural}.yaml"


def manifest(kind: CrdKind) -> dict[str, Any]:
    """Returns the CustomResourceDefinition object."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{kind.group}",
            "labels": {"app.kubernetes.io/name": "stowage"},
            **({"annotations": {_APPROVAL: _UNAPPROVED}} if kind.group.endswith(_PROTECTED) else {}),
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.singular or kind.name.lower(),
                "shortNames": list(kind.short_names),
                **({"categories": list(categories)} if (categories := _categories(kind)) else {}),
            },
            **(_CONVERSION if kind.group == GROUP else {}),
            "versions": [*([_older_version(kind)] if kind.group == GROUP else []), _version(kind)],
        },
    }


def _categories(kind: CrdKind) -> tuple[str, ...]:
    return (CATEGORY, *kind.categories) if kind.group == GROUP else kind.categories


@functools.cache
def text(kind: CrdKind) -> str:
    """Returns the file's text; equal types give equal bytes."""
    return HEADER + yaml.dump(manifest(kind), Dumper=_NoAnchors, sort_keys=False, width=120)


class _NoAnchors(yaml.SafeDumper):
    """Writes shared parts in full instead of as YAML anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _version(kind: CrdKind) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": _root(kind)},
    }
    if kind.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in kind.selectable]
    if kind.status:
        version["subresources"] = {"status": {}}
    return version


def _older_version(kind: CrdKind) -> dict[str, Any]:
    """Returns the kind's v1beta1 version, which has no selectable fields in Kueue."""
    version = {**_version(kind), "name": V1BETA1, "storage": False}
    version.pop("selectableFields", None)
    version["schema"] = {"openAPIV3Schema": older(kind.name, _root(kind))}
    columns = json.dumps(version["additionalPrinterColumns"]).replace(".spec.cohortName", ".spec.cohort")
    version["additionalPrinterColumns"] = json.loads(columns)
    return version


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
        **({"priority": 1} if column.wide else {}),
    }


def _root(kind: CrdKind) -> Schema:
    """Returns the schema of the whole object; the API server itself validates metadata."""
    schema = structural(kind.model)
    own = {name: child for name, child in schema["properties"].items() if name != "metadata"}
    frame = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return schema | {"properties": frame | own}
