"""Certificates of the embedded server: a CA and one serving certificate for loopback, for tests and the demo only.

Called by server.py.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """PEM texts: the CA's certificate, and a serving certificate with its key."""

    ca: bytes
    certificate: bytes
    key: bytes

    def context(self) -> ssl.SSLContext:
        """Returns the server's TLS context. The key is on disk only for a moment, because ssl loads from files alone."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "identity.pem"
            path.write_bytes(self.certificate + self.key)
            context.load_cert_chain(path)
        return context


def issue(names: tuple[str, ...] = ("localhost",), days: int = 30) -> ServerCertificate:
    """Returns a new CA and a certificate for `names` and 127.0.0.1."""
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stowage embedded CA")])
    ca = _builder(ca_name, ca_name, ca_key, days).add_extension(x509.BasicConstraints(True, None), True)
    ca = ca.add_extension(_usage(ca=True), True)
    ca_cert = ca.add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), False).sign(
        ca_key, hashes.SHA256()
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    hosts = [x509.DNSName(name) for name in names]
    addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    leaf = _builder(subject, ca_name, key, days).add_extension(x509.SubjectAlternativeName([*hosts, *addresses]), False)
    leaf = leaf.add_extension(x509.BasicConstraints(False, None), True).add_extension(_usage(ca=False), True)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    certificate = leaf.add_extension(issuer, False).sign(ca_key, hashes.SHA256())
    return ServerCertificate(_pem(ca_cert), _pem(certificate), _key_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(minutes=5))
    return builder.not_valid_after(now + timedelta(days=days))


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=ca, crl_sign=ca, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
