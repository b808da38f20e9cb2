"""Self-signed serving certificates and their rotation as a state machine. Pure except for the random keys.

Each serving certificate is signed by its own CA, whose key is discarded at once, so that nothing stored can sign another
certificate. Each rotation therefore changes the CA, and clients must trust the new CA before a replica serves its
certificate. A Secret holds the state, and each pass makes at most one step:

    ISSUE    no usable certificate: create one, trust its CA, serve it at once
    PREPARE  the certificate expires soon: create its successor, trust both CAs, keep serving the old one
    SWITCH   all configurations of clients have trusted both CAs for `settle` seconds: serve the successor
    RETIRE   all replicas have served the successor for `settle` seconds: stop trusting the old CA
    KEEP     nothing to do

Any replica may make a step. The Secret's resourceVersion lets only one replica write; the others then read its result.
certificates.py reads the Secret, calls this module and writes the result.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from api.meta import parse_time, rfc3339
from api.names import STOWAGE

_BACKDATE: Final = timedelta(minutes=5)
PREPARED_AT: Final = f"{STOWAGE}/prepared-at"
"""On the Secret of the webhook's certificates: when the next certificate was added to the trusted ones."""
SWITCHED_AT: Final = f"{STOWAGE}/switched-at"
"""On the Secret of the webhook's certificates: when the next certificate came into use."""
_CERTIFICATE, _KEY, _TRUST = "tls.crt", "tls.key", "ca.crt"
_NEXT_CERTIFICATE, _NEXT_KEY = "next.crt", "next.key"


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """A serving certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes

    def validity(self) -> tuple[float, float]:
        """Returns since when and until when the certificate is valid, in epoch seconds."""
        leaf = x509.load_pem_x509_certificate(self.certificate)
        return leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp()


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Durations in seconds. `settle` is the time that clients get to read a new CA, and replicas a new certificate."""

    certificate: float = 90 * 86400.0
    renew_before: float = 30 * 86400.0
    settle: float = 120.0


@dataclass(frozen=True, slots=True)
class AuthorityState:
    """The contents of the Secret. `trust` lists CA certificates (PEM), newest last; times are epoch seconds."""

    serving: ServingCertificate | None = None
    successor: ServingCertificate | None = None
    trust: tuple[bytes, ...] = ()
    prepared_at: float = 0.0
    switched_at: float = 0.0

    @property
    def bundle(self) -> bytes:
        """Returns the trusted CAs as one PEM text."""
        return b"".join(self.trust)


class RotationStep(StrEnum):
    """A step of the rotation; the module's docstring defines each."""

    ISSUE = "issue"
    PREPARE = "prepare"
    SWITCH = "switch"
    RETIRE = "retire"
    KEEP = "keep"


def plan(
    state: AuthorityState, configured: Iterable[bytes], names: Sequence[str], now: float, lifetimes: Lifetimes
) -> RotationStep:
    """Returns the next step. `configured` yields the CA bundle (PEM) of each client's configuration; `now` is epoch seconds."""
    if state.serving is None or not usable(state.serving, state.trust, names, now):
        return RotationStep.ISSUE
    if state.successor is not None:
        if not usable(state.successor, state.trust, names, now):
            return RotationStep.PREPARE
        trusted = all(set(state.trust) <= set(split(bundle)) for bundle in configured)
        return RotationStep.SWITCH if trusted and now >= state.prepared_at + lifetimes.settle else RotationStep.KEEP
    if now >= expiry(state.serving) - lifetimes.renew_before:
        return RotationStep.PREPARE
    followed = now >= state.switched_at + lifetimes.settle
    return RotationStep.RETIRE if len(state.trust) > 1 and followed else RotationStep.KEEP


def advance(
    state: AuthorityState, step: RotationStep, names: Sequence[str], now: float, lifetimes: Lifetimes
) -> AuthorityState:
    """Returns the state after `step`. ISSUE and PREPARE generate keys for the DNS names or IP addresses `names`."""
    if step is RotationStep.ISSUE:
        pair, authority = issue(names, now, lifetimes.certificate)
        # The old CA stays trusted until RETIRE; replicas may still serve its certificate.
        return AuthorityState(pair, None, (*state.trust[-1:], authority), switched_at=now)
    if step is RotationStep.PREPARE:
        pair, authority = issue(names, now, lifetimes.certificate)
        current = tuple(ca for ca in state.trust if state.serving and signed_by(state.serving, ca))
        return replace(state, successor=pair, trust=(*current, authority), prepared_at=now)
    if step is RotationStep.SWITCH:
        return replace(state, serving=state.successor, successor=None, switched_at=now)
    if step is RotationStep.RETIRE and state.serving is not None:
        serving = state.serving
        return replace(state, trust=tuple(ca for ca in state.trust if signed_by(serving, ca)))
    return state


# ---- certificates


def issue(names: Sequence[str], now: float, lifetime: float) -> tuple[ServingCertificate, bytes]:
    """Returns a serving certificate for DNS names or IP addresses, and the CA certificate that signed it (PEM).

    `lifetime` is in seconds from `now` (epoch seconds).
    """
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    # Each CA has a unique name: verifiers would otherwise try each CA of that name in the bundle.
    title = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"stowage-webhook-ca-{x509.random_serial_number():x}")])
    ca = _builder(title, title, authority_key, now, lifetime)
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    ca = ca.add_extension(_usage(ca=True), critical=True)
    ca = ca.add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    leaf = _builder(subject, title, key, now, lifetime)
    leaf = leaf.add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
    leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    leaf = leaf.add_extension(_usage(ca=False), critical=True)
    leaf = leaf.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    certificate = leaf.add_extension(signer, critical=False).sign(authority_key, hashes.SHA256())
    return ServingCertificate(_pem(certificate), _key_pem(key)), _pem(ca.sign(authority_key, hashes.SHA256()))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: float, lifetime: float
) -> x509.CertificateBuilder:
    start = datetime.fromtimestamp(now, UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(start - _BACKDATE).not_valid_after(start + timedelta(seconds=lifetime))


def _usage(*, ca: bool) -> x509.KeyUsage:
    signing = {"key_cert_sign": ca, "crl_sign": ca, "digital_signature": True}
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    return x509.KeyUsage(**signing, **dict.fromkeys(others, False), encipher_only=False, decipher_only=False)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def split(bundle: bytes) -> tuple[bytes, ...]:
    """Returns the certificates of a PEM bundle, each re-encoded as PEM; none if the bundle is invalid."""
    try:
        return tuple(_pem(one) for one in x509.load_pem_x509_certificates(bundle)) if bundle.strip() else ()
    except ValueError:
        return ()


def expiry(pair: ServingCertificate) -> float:
    """Returns the certificate's expiry in epoch seconds. Raises ValueError for an invalid certificate."""
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc.timestamp()


def signed_by(pair: ServingCertificate, authority: bytes) -> bool:
    """Reports whether the CA `authority` (PEM) signed the certificate."""
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def usable(pair: ServingCertificate, trust: Sequence[bytes], names: Sequence[str], now: float) -> bool:
    """Reports whether the pair is valid: it parses, matches its key, is not expired, and covers `names` under a trusted CA."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, password=None)
        covered = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return (
        certificate.public_key() == key.public_key()
        and now < certificate.not_valid_after_utc.timestamp()
        and all(_alternative(name) in covered for name in names)
        and any(signed_by(pair, ca) for ca in trust)
    )


# ---- the Secret


def from_secret(secret: Mapping[str, Any]) -> AuthorityState:
    """Returns the state that a Secret holds; parts that cannot be read count as absent."""
    data, meta = secret.get("data") or {}, secret.get("metadata") or {}
    annotations = meta.get("annotations") or {}
    return AuthorityState(
        _pair(data, _CERTIFICATE, _KEY),
        _pair(data, _NEXT_CERTIFICATE, _NEXT_KEY),
        split(_decoded(data.get(_TRUST))),
        _time(annotations.get(PREPARED_AT)),
        _time(annotations.get(SWITCHED_AT)),
    )


def to_secret(state: AuthorityState, before: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the Secret `before` (metadata at least) with `state`, keeping all other labels, annotations and keys."""
    meta = before.get("metadata") or {}
    stamps = {PREPARED_AT: rfc3339(state.prepared_at), SWITCHED_AT: rfc3339(state.switched_at)}
    own = {_TRUST: state.bundle, **_entries(state.serving, _CERTIFICATE, _KEY)}
    own |= _entries(state.successor, _NEXT_CERTIFICATE, _NEXT_KEY)
    ours = {_TRUST, _CERTIFICATE, _KEY, _NEXT_CERTIFICATE, _NEXT_KEY}
    kept = {key: value for key, value in (before.get("data") or {}).items() if key not in ours}
    return {
        **before,
        "apiVersion": "v1",
        "kind": "Secret",
        "type": before.get("type") or "kubernetes.io/tls",
        "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), **stamps}},
        "data": {**kept, **{key: base64.b64encode(value).decode() for key, value in own.items()}},
    }


def _entries(pair: ServingCertificate | None, certificate: str, key: str) -> dict[str, bytes]:
    return {certificate: pair.certificate, key: pair.key} if pair else {}


def _pair(data: Mapping[str, str], certificate: str, key: str) -> ServingCertificate | None:
    pair = ServingCertificate(_decoded(data.get(certificate)), _decoded(data.get(key)))
    return pair if pair.certificate and pair.key else None


def _decoded(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except binascii.Error:
        return b""


def _time(text: str | None) -> float:
    try:
        return parse_time(text) or 0.0
    except ValueError:
        return 0.0
