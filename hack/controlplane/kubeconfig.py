"""Writes kubeconfig files as JSON, which is valid YAML and needs no YAML parser to read."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from hack.controlplane.pki import KeyPairFiles


def certificate_user(pair: KeyPairFiles) -> dict[str, str]:
    """Returns credentials with an embedded client certificate."""
    return {"client-certificate-data": _embedded(pair.certificate), "client-key-data": _embedded(pair.key)}


def token_user(token: str) -> dict[str, str]:
    """Returns credentials with a bearer token."""
    return {"token": token}


def write(path: Path, server: str, ca: Path, user: dict[str, str], namespace: str = "default") -> Path:
    """Writes a kubeconfig with one cluster, user and context, readable by its owner only. Returns `path`."""
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority-data": _embedded(ca)}}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=1))
    return path


def _embedded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
