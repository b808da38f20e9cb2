"""Reads a kubeconfig: one context with its cluster and user, as kubectl reads them.

What asks others for credentials (exec plugins, OIDC and other auth providers) is left to kubernetes-asyncio, in a process of
its own (credential_plugin.py): the library's hundreds of model classes take half a second and 35 MiB, which a process that
runs for months would keep.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from api.errors import InvalidObject
from api.kube.endpoint import Endpoint, TokenFile, pem, pem_text
from api.text.manifests import parsed

_PLUGINS: Final = ("exec", "auth-provider")
_ANSWERS_WITHIN = 300.0
"""Seconds for a plugin's answer: a person may have to sign in with a browser meanwhile."""
_PROGRAM: Final = Path(__file__).with_name("credential_plugin.py")

Fields = Mapping[str, Any]


async def endpoint(path: Path, context: str | None = None) -> Endpoint:
    """Returns the API server of a context, by default the current one. Raises InvalidObject or OSError."""
    chosen = _Chosen.read(path, context)
    if any(chosen.user.get(name) for name in _PLUGINS):
        return await _by_plugin(path, context)
    return chosen.endpoint()


def namespace(path: Path, context: str | None = None) -> str:
    """Returns the namespace of a context, or "". Raises InvalidObject or OSError."""
    return str(_Chosen.read(path, context).context.get("namespace") or "")


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The chosen context of a file, with its cluster and its user."""

    path: Path
    context: Fields
    cluster: Fields
    user: Fields

    @classmethod
    def read(cls, path: Path, name: str | None) -> _Chosen:
        content = _content(path)
        context = _entry(path, content, "context", name or content.get("current-context"))
        cluster = _entry(path, content, "cluster", context.get("cluster"))
        user = _entry(path, content, "user", context["user"]) if context.get("user") else {}
        return cls(path, context, cluster, user)

    def endpoint(self) -> Endpoint:
        """Returns the cluster's API server, with the user's own credentials."""
        host = self.cluster.get("server")
        if not isinstance(host, str) or not host:
            raise _invalid(self.path, "cluster.server", host, "must be the URL of an API server")
        token, file = self.user.get("token"), self.user.get("tokenFile")
        return Endpoint(
            host=host.rstrip("/"),
            authorization=f"Bearer {token}" if token else self._password(),
            token_file=TokenFile(self._file(file)) if file and not token else None,
            ca=self._pem(self.cluster, "certificate-authority"),
            certificate=self._pem(self.user, "client-certificate"),
            key=self._pem(self.user, "client-key"),
            verify=not self.cluster.get("insecure-skip-tls-verify"),
            server_name=str(self.cluster.get("tls-server-name") or ""),
            proxy=str(self.cluster.get("proxy-url") or ""),
        )

    def _password(self) -> str:
        name, password = self.user.get("username"), self.user.get("password")
        if name is None or password is None:
            return ""
        return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()

    def _pem(self, fields: Fields, name: str) -> str:
        """Returns what `name`-data holds, else the content of the file `name`."""
        if data := fields.get(f"{name}-data"):
            try:
                return pem(base64.b64decode("".join(str(data).split()).encode(), validate=True))
            except binascii.Error:
                raise _invalid(self.path, f"{name}-data", "...", "must be base64") from None
        return pem_text(self._file(fields[name])) if fields.get(name) else ""

    def _file(self, name: object) -> Path:
        """Returns a file that is named from the kubeconfig's folder."""
        return self.path.absolute().parent / str(name)


def _content(path: Path) -> Fields:
    try:
        content = next(iter(parsed(path.read_text(encoding="utf-8"))), None)
    except (yaml.YAMLError, UnicodeDecodeError) as bad:
        raise _invalid(path, "the file", "...", f"must be YAML: {bad}") from None
    if not isinstance(content, dict):
        raise _invalid(path, "the file", "...", "must be a map with contexts, clusters and users")
    return content


def _entry(path: Path, content: Fields, kind: str, name: object) -> Fields:
    """Returns the only entry of that name in the list of a kind."""
    listed = content.get(f"{kind}s")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    named = [entry.get(kind) for entry in entries if entry.get("name") == name]
    if len(named) != 1:
        names = ", ".join(sorted(str(entry.get("name")) for entry in entries))
        raise _invalid(path, kind, name, f"must be the name of one of the {kind}s: {names or 'none'}")
    return named[0] if isinstance(named[0], dict) else {}


async def _by_plugin(path: Path, context: str | None) -> Endpoint:
    """Returns what the library reads, which runs the plugin or asks the provider.

    The program is run as a file and imports nothing from the working directory, which may be anybody's.
    """
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(_PROGRAM), str(path), *([context] if context else [])),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_ANSWERS_WITHIN):
            answer, _ = await child.communicate()
    except TimeoutError:
        raise _invalid(
            path, "user", context, f"its credentials could not be read: no answer within {_ANSWERS_WITHIN:g} s"
        ) from None
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    try:
        fields = json.loads(answer)
    except ValueError:
        raise _invalid(
            path, "user", context, f"its credentials could not be read: exit code {child.returncode}"
        ) from None
    if "error" in fields:
        raise _invalid(path, "user", context, f"its credentials could not be read: {fields['error']}")
    return Endpoint(**fields)


def _invalid(path: Path, field: str, value: object, allowed: str) -> InvalidObject:
    return InvalidObject(field, value, allowed, str(path))
