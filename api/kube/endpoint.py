"""Where an API server is, how it proves itself, and how its client does; and the TLS context that follows from it.

service_account.py reads it in a cluster, kubeconfig.py elsewhere; connection.py opens the session.
"""

from __future__ import annotations

import ssl
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from api.errors import InvalidObject

TOKEN_PERIOD: Final = 60.0
"""Seconds until the file of a token is read again; the kubelet renews the one of a ServiceAccount long before it ends."""


class TokenFile:
    """A token in a file that others renew. Raises InvalidObject or OSError if there is none at first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = _read(path)
        self._read = time.monotonic()

    def authorization(self) -> str:
        """Returns the header; while the file cannot be read, with the last token."""
        if time.monotonic() - self._read >= TOKEN_PERIOD:
            self._read = time.monotonic()
            with suppress(OSError, InvalidObject):
                self._token = _read(self._path)
        return f"Bearer {self._token}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server as a client reaches it. Certificates and keys are PEM texts; an empty one is not set."""

    host: str
    authorization: str = ""
    """The Authorization header; empty: a client certificate, or nobody."""
    token_file: TokenFile | None = None
    """Takes the place of `authorization`."""
    ca: str = ""
    """What the server's certificate is verified by; empty: what the system trusts."""
    certificate: str = ""
    key: str = ""
    verify: bool = True
    server_name: str = ""
    """The name in the server's certificate, if it is another than in `host`."""
    proxy: str = ""

    def header(self) -> str | None:
        """Returns the Authorization header, or None."""
        return (self.token_file.authorization() if self.token_file else self.authorization) or None

    def tls(self) -> ssl.SSLContext:
        """Returns the context of its connections. Raises OSError for certificates or a key that cannot be used."""
        context = ssl.create_default_context(cadata=self.ca or None)
        if self.certificate:
            # OpenSSL reads the key from a file only, which no other user may read and which is gone afterwards.
            with tempfile.NamedTemporaryFile("w", prefix="stowage-", encoding="ascii") as file:
                file.write(f"{self.certificate}\n{self.key}\n")
                file.flush()
                context.load_cert_chain(file.name)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def pem_text(path: Path) -> str:
    """Returns the certificates or the key of a file, without the comments that OpenSSL does not take. Raises OSError."""
    return _nonempty(path, pem(path.read_bytes()))


def pem(content: bytes) -> str:
    """Returns PEM as text."""
    return content.decode("ascii", "ignore")


def _read(path: Path) -> str:
    return _nonempty(path, path.read_text(encoding="utf-8").strip())


def _nonempty(path: Path, text: str) -> str:
    if not text.strip():
        raise InvalidObject(str(path), text, "must not be empty")
    return text
