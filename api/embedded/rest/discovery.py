"""Discovery: groups, versions, resources and health, sufficient for Stowage's client and for kubectl.

Not supported: OpenAPI (kubectl needs `--validate=false`) and aggregated discovery. Called by http.py for paths that are not
resources.
"""

from __future__ import annotations

from api.embedded.kinds import ServedKind
from api.embedded.status import Obj
from api.embedded.store import ObjectStorage

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+stowage-embedded",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_HEALTH = ("/healthz", "/livez", "/readyz")


def answer(store: ObjectStorage, path: str) -> Obj | str | None:
    """Returns the response body (a string for plain text), or None for an unknown path."""
    if path in _HEALTH:
        return "ok"
    parts = path.strip("/").split("/")
    match parts:
        case ["version"]:
            return dict(VERSION)
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["api", "v1"]:
            return _resources(store, "", "v1")
        case ["apis"]:
            names = sorted({kind.group for kind in store.kinds.values() if kind.group})
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(store, name) for name in names]}
        case ["apis", group] if _versions(store, group):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(store, group)}
        case ["apis", group, version] if version in _versions(store, group):
            return _resources(store, group, version)
    return None


def _versions(store: ObjectStorage, group: str) -> list[str]:
    versions = {version: None for kind in store.kinds.values() if kind.group == group for version in kind.served}
    return sorted(versions, reverse=True) if group else []


def _group(store: ObjectStorage, group: str) -> Obj:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in _versions(store, group)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resources(store: ObjectStorage, group: str, version: str) -> Obj:
    kinds = [kind for kind in store.kinds.values() if kind.group == group and version in kind.served]
    resources = [entry for kind in sorted(kinds, key=lambda kind: kind.plural) for entry in _entries(kind)]
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def _entries(kind: ServedKind) -> list[Obj]:
    base: Obj = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
    }
    main = {**base, "verbs": _VERBS}
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    inner = {"singularName": "", "namespaced": kind.namespaced, "kind": kind.kind, "verbs": ["get", "patch", "update"]}
    return [main, *({**inner, "name": f"{kind.plural}/{name}"} for name in kind.subresources)]
