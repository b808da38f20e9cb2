"""Removes secrets from objects and texts. Pure.

Only those fields of a pod's spec are kept that admission and placement read, so values of variables, arguments, probes and
volumes are never included. Elsewhere values are removed by their key, and texts are searched for tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from api.names import GROUP, STOWAGE

REDACTED: Final = "REDACTED"
DEEPEST: Final = 40
"""Deeper parts of an object are cut."""
LONGEST: Final = 32 * 1024
"""Characters of one string that are kept."""
_POD_SPEC: Final = frozenset(
    (
        *(
            "affinity",
            "containers",
            "hostNetwork",
            "initContainers",
            "nodeName",
            "nodeSelector",
            "overhead",
            "priority",
        ),
        *("preemptionPolicy", "priorityClassName", "resourceClaims", "resources", "restartPolicy", "runtimeClassName"),
        *("schedulerName", "schedulingGates", "serviceAccountName", "terminationGracePeriodSeconds", "tolerations"),
        "topologySpreadConstraints",
    )
)
_CONTAINER: Final = frozenset(("image", "name", "ports", "resources", "restartPolicy"))
_NODE_STATUS: Final = frozenset(("allocatable", "capacity", "conditions"))
_KEPT_ANNOTATIONS: Final = re.compile(
    rf"(?:[\w-]+\.)*(?:{re.escape(GROUP)}|{re.escape(STOWAGE)})/.*|deployment\.kubernetes\.io/.*"
)
_KEPT_FILES: Final = frozenset(("admission.yaml", "ungater.yaml"))
"""Keys of ConfigMaps with settings, which hold no secret; other values of ConfigMaps are removed."""
_SENSITIVE: Final = re.compile(
    r"(?i)passw|token|secret|credential|api[-_.]?key|private[-_.]?key|access[-_.]?key|authorization|cookie|client[-_.]?key"
)
_HARMLESS: Final = re.compile(r"(?i)name$|ref$|namespace$|secrets$|^secret$")
"""Keys whose value is no secret itself: it names a Secret, or is a structure."""
_BINARY: Final = frozenset(("caBundle",))

# Each looks at a character a bounded number of times, whatever the text is: logs have lines of megabytes.
_TEXTS: Final = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"(?<![\w-])ey[JI][\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
    re.compile(r"(?i)\b(?:bearer|basic)\s+[\w.~+/=-]{8,}"),
    re.compile(
        r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bxox[abprs]-[\w-]{10,}|\bglpat-[\w-]{16,}"
    ),
    re.compile(r"\bhf_\w{20,}|\bsk-[\w-]{20,}|\bAIza[\w-]{30,}|\bnvapi-[\w-]{20,}"),
)
_USER_OF_URL: Final = re.compile(r"((?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://)[^\s/@\"']+@")
_ASSIGNED: Final = re.compile(
    r"(?i)((?:passw(?:or)?d|token|secret|credential|(?:api|private|access|client)[-_.]?key|authorization)[\w.-]{0,64}"
    r"[\"']?\s{0,8}[=:]\s{0,8})(\"[^\"\n]*\"?|'[^'\n]*'?|[^\s,;}\]][^\n,;}\]]*)"
)
"""A name of a secret, and what is assigned to it: a quoted text, or everything up to the next separator."""


def text(original: str) -> str:
    """Returns a text without tokens, private keys, passwords in URLs, and values assigned to names of secrets."""
    for pattern in _TEXTS:
        original = pattern.sub(REDACTED, original)
    original = _USER_OF_URL.sub(rf"\1{REDACTED}@", original)
    return _ASSIGNED.sub(rf"\1{REDACTED}", original)


def redacted(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an object as the bundle holds it."""
    kind = str(obj.get("kind") or "")
    kept = {key: value for key, value in obj.items() if key != "metadata"}
    if kind in ("Secret", "ConfigMap"):
        kept |= {key: _data(kept[key], kind) for key in ("data", "stringData", "binaryData") if key in kept}
    if kind == "CustomResourceDefinition":
        kept = _without_schemas(kept)
    if kind == "Node" and isinstance(kept.get("status"), Mapping):
        kept["status"] = {key: value for key, value in kept["status"].items() if key in _NODE_STATUS}
    return {"metadata": _metadata(obj.get("metadata")), **{key: value(each, str(key)) for key, each in kept.items()}}


def _metadata(metadata: Any) -> Any:
    if not isinstance(metadata, Mapping):
        return REDACTED
    kept = {key: each for key, each in metadata.items() if key not in ("managedFields", "annotations", "selfLink")}
    annotations = metadata.get("annotations")
    redacted = {key: value(each, str(key)) for key, each in kept.items()}
    if isinstance(annotations, Mapping):
        redacted["annotations"] = {key: _annotation(str(key), each) for key, each in annotations.items()}
    return redacted


def _annotation(key: str, content: Any) -> Any:
    return value(content, key) if _KEPT_ANNOTATIONS.fullmatch(key) else REDACTED


def _data(data: Any, kind: str) -> Any:
    if not isinstance(data, Mapping):
        return REDACTED
    kept = _KEPT_FILES if kind == "ConfigMap" else frozenset()
    return {key: each if key in kept else REDACTED for key, each in data.items()}


def _without_schemas(crd: dict[str, Any]) -> dict[str, Any]:
    spec = crd.get("spec")
    if not isinstance(spec, Mapping):
        return crd
    versions = [{key: each for key, each in one.items() if key != "schema"} for one in spec.get("versions") or ()]
    return {**crd, "spec": {**spec, "versions": versions}}


def value(content: Any, key: str = "", depth: int = 0) -> Any:
    """Returns the value of a key without secrets."""
    if depth > DEEPEST:
        return REDACTED
    if isinstance(content, Mapping):
        return _mapping(content, depth)
    if isinstance(content, list | tuple):
        return [value(each, key, depth + 1) for each in content]
    if isinstance(content, str):
        if content and (key in _BINARY or (_SENSITIVE.search(key) and not _HARMLESS.search(key))):
            return REDACTED
        return text(content[:LONGEST])
    return content


def _mapping(mapping: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    if isinstance(mapping.get("containers"), list):
        return _pod_spec(mapping, depth)
    if "metadata" in mapping and isinstance(mapping["metadata"], Mapping):
        rest = {str(key): value(each, str(key), depth + 1) for key, each in mapping.items() if key != "metadata"}
        return {"metadata": _metadata(mapping["metadata"]), **rest}
    return {str(key): value(each, str(key), depth + 1) for key, each in mapping.items()}


def _pod_spec(spec: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    redacted = {
        key: value(spec[key], key, depth + 1)
        for key in sorted(_POD_SPEC & spec.keys())
        if not key.endswith("ontainers")
    }
    for key in ("initContainers", "containers"):
        if isinstance(spec.get(key), list):
            redacted[key] = [_container(each, depth) for each in spec[key]]
    if isinstance(spec.get("volumes"), list):
        redacted["volumes"] = [_volume(each) for each in spec["volumes"]]
    return redacted


def _container(container: Any, depth: int) -> Any:
    if not isinstance(container, Mapping):
        return REDACTED
    redacted = {key: value(container[key], key, depth + 1) for key in sorted(_CONTAINER & container.keys())}
    if isinstance(container.get("env"), list):
        names = (one.get("name") for one in container["env"] if isinstance(one, Mapping))
        redacted["env"] = [{"name": str(name), "value": REDACTED} for name in names]
    return redacted


def _volume(volume: Any) -> Any:
    """Returns a volume's name and claim."""
    if not isinstance(volume, Mapping):
        return REDACTED
    claim = volume.get("persistentVolumeClaim")
    named = {"persistentVolumeClaim": {"claimName": str(claim.get("claimName"))}} if isinstance(claim, Mapping) else {}
    return {"name": str(volume.get("name")), **named}
