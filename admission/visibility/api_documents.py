"""Documents about the visibility API that clients read before they call it: discovery and OpenAPI. Constants for server.py.

The resources are Kueue's: `clusterqueues` and `localqueues` have no verbs, only their subresource `pendingworkloads`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

GROUP: Final = "visibility.kueue.x-k8s.io"
VERSIONS: Final = ("v1beta2", "v1beta1")
"""Served versions, the preferred one first. Their objects are the same."""
SUMMARY: Final = "PendingWorkloadsSummary"

_KINDS: Final = (("clusterqueues", "clusterqueue", False), ("localqueues", "localqueue", True))
_TEXT, _INTEGER = {"type": "string"}, {"type": "integer", "format": "int32"}
_QUERY: Final = (
    ("limit", "Most workloads to return, 1000 by default and 100000 at most."),
    ("offset", "Position of the first workload to return, starting from 0."),
)


def documents() -> dict[str, dict[str, Any]]:
    """Returns the documents by path."""
    group = _group()
    of_versions = {f"/apis/{GROUP}/{version}": _resources(version) for version in VERSIONS}
    schemas = {f"/openapi/v3/apis/{GROUP}/{version}": _openapi_v3(version) for version in VERSIONS}
    return {
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]},
        f"/apis/{GROUP}": {"kind": "APIGroup", "apiVersion": "v1", **group},
        **of_versions,
        "/openapi/v2": _openapi_v2(),
        "/openapi/v3": {"paths": {path.removeprefix("/openapi/v3/"): {"serverRelativeURL": path} for path in schemas}},
        **schemas,
    }


def _group() -> dict[str, Any]:
    versions = [{"groupVersion": f"{GROUP}/{version}", "version": version} for version in VERSIONS]
    return {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}


def _resources(version: str) -> dict[str, Any]:
    resources: list[dict[str, Any]] = []
    for plural, singular, namespaced in _KINDS:
        common = {"namespaced": namespaced, "kind": SUMMARY}
        resources.append({"name": plural, "singularName": singular, **common, "verbs": []})
        resources.append({"name": f"{plural}/pendingworkloads", "singularName": "", **common, "verbs": ["get"]})
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{version}",
        "resources": resources,
    }


def _openapi_v3(version: str) -> dict[str, Any]:
    name = f"io.k8s.x-kueue.visibility.{version}.{SUMMARY}"
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    answers = {"200": {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}}
    paths = {path: {"get": {**_operation(path, version), "responses": answers}} for path in _paths(version)}
    return {
        "openapi": "3.0.0",
        "info": _info(),
        "paths": paths,
        "components": {"schemas": {name: _summary(version)}},
    }


def _openapi_v2() -> dict[str, Any]:
    """Returns the schemas alone: the API server merges them with its own, and kubectl explain reads version 3."""
    names = {f"io.k8s.x-kueue.visibility.{version}.{SUMMARY}": _summary(version) for version in VERSIONS}
    return {"swagger": "2.0", "info": _info(), "paths": {}, "definitions": names}


def _info() -> dict[str, str]:
    return {"title": "Stowage visibility API", "version": VERSIONS[0]}


def _paths(version: str) -> tuple[str, str]:
    base = f"/apis/{GROUP}/{version}"
    return (
        f"{base}/clusterqueues/{{name}}/pendingworkloads",
        f"{base}/namespaces/{{namespace}}/localqueues/{{name}}/pendingworkloads",
    )


def _operation(path: str, version: str) -> dict[str, Any]:
    named = [part.strip("{}") for part in path.split("/") if part.startswith("{")]
    inside = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in named]
    query = [
        {"name": name, "in": "query", "description": text, "schema": {"type": "integer", "format": "int64"}}
        for name, text in _QUERY
    ]
    kind = {"group": GROUP, "version": version, "kind": SUMMARY}
    return {"parameters": [*inside, *query], "x-kubernetes-action": "get", "x-kubernetes-group-version-kind": kind}


def _summary(version: str) -> Mapping[str, Any]:
    kind = {"group": GROUP, "version": version, "kind": SUMMARY}
    item = {
        "type": "object",
        "required": ["priority", "localQueueName", "positionInClusterQueue", "positionInLocalQueue"],
        "properties": {
            "metadata": {"type": "object"},
            "priority": {**_INTEGER, "description": "The workload's priority."},
            "localQueueName": {**_TEXT, "description": "The LocalQueue that the workload names."},
            "positionInClusterQueue": {**_INTEGER, "description": "Its position in the ClusterQueue, starting from 0."},
            "positionInLocalQueue": {**_INTEGER, "description": "Its position in the LocalQueue, starting from 0."},
        },
    }
    return {
        "description": "The pending workloads of a queue, in the order of their evaluation.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"type": "object"},
            "items": {"type": "array", "items": item},
        },
        "x-kubernetes-group-version-kind": [kind],
    }
