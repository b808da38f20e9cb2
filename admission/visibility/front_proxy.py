"""Authenticates the API server's proxy, and reads the user for whom it forwards a request.

The API server authenticates users and forwards their requests with the user in headers. It proves itself with a client
certificate; the ConfigMap kube-system/extension-apiserver-authentication publishes that certificate's CA, the common names that
it may have, and the names of the headers. Without such a certificate the headers mean nothing: any client could send them.

`Trust` is read from the ConfigMap; by it, `FrontProxyTls` verifies the certificate of each new connection. server.py uses both.
"""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from multidict import CIMultiDictProxy

from admission.serving.tls import Serving
from api.kube.client import Kube
from api.kube.resources import CONFIG_MAPS
from api.process.identities import Subject

log = logging.getLogger(__name__)

NAMESPACE: Final = "kube-system"
CONFIG_MAP: Final = "extension-apiserver-authentication"
_LONGEST_CA: Final = 256 * 1024
_USER, _UID, _GROUP, _EXTRA = "X-Remote-User", "X-Remote-Uid", "X-Remote-Group", "X-Remote-Extra-"


@dataclass(frozen=True, slots=True)
class Trust:
    """The CA and names of the proxy's client certificate, and the names of the headers with the user. Several headers may carry
    the same fact; the first one present counts, as in Kubernetes.
    """

    authority: str = ""
    """PEM; without it no certificate is trusted."""
    names: frozenset[str] = frozenset()
    """The allowed common names; empty for any."""
    users: tuple[str, ...] = (_USER,)
    uids: tuple[str, ...] = (_UID,)
    groups: tuple[str, ...] = (_GROUP,)
    extras: tuple[str, ...] = (_EXTRA,)

    def proves(self, certificate: Mapping[str, Any] | None) -> bool:
        """Reports whether a client certificate, which TLS has verified, is the proxy's (as `ssl.getpeercert` decodes it)."""
        if not certificate or not self.authority:
            return False
        subject = certificate.get("subject", ())
        return not self.names or any(k == "commonName" and v in self.names for part in subject for k, v in part)

    def subject(self, headers: CIMultiDictProxy[str]) -> Subject | None:
        """Returns the user whom the headers of a proven proxy name, or None if they name none."""
        username = next((value for name in self.users if (value := headers.get(name))), "")
        if not username:
            return None
        uid = next((value for name in self.uids if (value := headers.get(name))), "")
        groups = tuple(group for name in self.groups for group in headers.getall(name, ()))
        return Subject(username, groups, uid, self._extra(headers))

    def _extra(self, headers: CIMultiDictProxy[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        extra: dict[str, list[str]] = {}
        for name, value in headers.items():
            for prefix in self.extras:
                if name.lower().startswith(prefix.lower()):
                    extra.setdefault(unquote(name[len(prefix) :].lower()), []).append(value)
        return tuple((key, tuple(values)) for key, values in sorted(extra.items()))


def read_trust(data: Mapping[str, str]) -> Trust:
    """Reads the ConfigMap's data. An unreadable part counts as absent; without a CA no client is trusted."""
    authority = data.get("requestheader-client-ca-file", "")
    given = data.get("requestheader-allowed-names")
    names = _listed(given)
    if names is None and given is not None:
        log.error("requestheader-allowed-names is not a list of strings", extra={"configmap": CONFIG_MAP})
        return Trust()
    return Trust(
        authority if len(authority) <= _LONGEST_CA else "",
        frozenset(names or ()),
        _listed(data.get("requestheader-username-headers")) or (_USER,),
        _listed(data.get("requestheader-uid-headers")) or (_UID,),
        _listed(data.get("requestheader-group-headers")) or (_GROUP,),
        _listed(data.get("requestheader-extra-headers-prefix")) or (_EXTRA,),
    )


def _listed(text: str | None) -> tuple[str, ...] | None:
    try:
        listed = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return None
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        return None
    return tuple(listed)


async def fetch_trust(kube: Kube) -> Trust:
    """Reads the ConfigMap. Raises ApiError and TimeoutError."""
    config_map = await kube.get(CONFIG_MAPS, CONFIG_MAP, NAMESPACE)
    return read_trust(config_map.get("data") or {})


class FrontProxyTls(Serving):
    """A TLS context that asks clients for a certificate of the proxy's CA. A client without one may connect, and gets 401."""

    def __init__(self) -> None:
        super().__init__()
        self.trust = Trust()

    def use(self, trust: Trust) -> bool:
        """Verifies certificates by `trust` from the next handshake on; True if that is a change.

        A CA cannot be removed from a context, so another CA needs a new context. Raises ssl.SSLError for an invalid CA, and
        keeps the present trust.
        """
        if trust == self.trust:
            return False
        if trust.authority != self.trust.authority:
            successor = Serving()
            if trust.authority:
                successor.context.load_verify_locations(cadata=trust.authority)
                successor.context.verify_mode = ssl.CERT_OPTIONAL
            # A resumed session would keep the certificate that an earlier CA signed.
            successor.context.options |= ssl.OP_NO_TICKET
            successor.context.num_tickets = 0
            if self.pair is not None:
                successor.load(self.pair)
            self.context = successor.context
        self.trust = trust
        return True
