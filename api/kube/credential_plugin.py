"""A program: prints what kubernetes-asyncio reads from a kubeconfig whose user has a plugin or an auth provider, as JSON.

    python -P api/kube/credential_plugin.py KUBECONFIG [CONTEXT]

kubeconfig.py runs it, and so imports nothing of the library. It runs as a file, and so imports nothing of Stowage.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


async def endpoint(kubeconfig: str, context: str | None) -> dict[str, Any]:
    """Returns the fields of an Endpoint. The library's files of keys and certificates are gone afterwards."""
    from kubernetes_asyncio.client.configuration import Configuration
    from kubernetes_asyncio.config import load_kube_config

    make: Any = Configuration
    load: Any = load_kube_config
    read = make()
    with tempfile.TemporaryDirectory(prefix="stowage-") as folder:
        await load(
            config_file=kubeconfig,
            context=context,
            client_configuration=read,
            persist_config=False,
            temp_file_path=folder,
        )
        return {
            "host": read.host,
            "authorization": read.api_key.get("BearerToken") or "",
            "ca": _text(read.ssl_ca_cert),
            "certificate": _text(read.cert_file),
            "key": _text(read.key_file),
            "verify": bool(read.verify_ssl),
            "server_name": read.tls_server_name or "",
            "proxy": read.proxy or "",
        }


def _text(file: str | None) -> str:
    return Path(file).read_bytes().decode("ascii", "ignore") if file else ""


def main(arguments: list[str]) -> None:
    """Prints the fields, or the error. Only they go to the standard output; what else is written there goes to the errors.

    The library tells a plugin by the standard output whether a user can answer it.
    """
    answer = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        fields = asyncio.run(endpoint(arguments[0], arguments[1] if len(arguments) > 1 else None))
    except Exception as error:  # noqa: BLE001 - whatever a plugin does: the caller tells it with the file's name
        fields = {"error": str(error) or type(error).__name__}
    with os.fdopen(answer, "w") as output:
        json.dump(fields, output)


if __name__ == "__main__":
    main(sys.argv[1:])
