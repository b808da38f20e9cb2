"""A certificate authority for one cluster, in PEM files: serving and client certificates, and the key for service accounts.

All keys are EC P-256 (some milliseconds each). Extensions satisfy OpenSSL's strict checks, which newer Pythons enable.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import shutil
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=365)
_EARLIER = dt.timedelta(minutes=5)  # tolerates differences between the clocks of two processes


@dataclass(frozen=True, slots=True)
class KeyPairFiles:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path

    def copy_to(self, folder: Path) -> None:
        """Copies both to where controller-runtime reads those of a webhook server."""
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.certificate, folder / "tls.crt")
        shutil.copy(self.key, folder / "tls.key")


class Authority:
    """Creates its key at once, in `folder`, which only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("stowage-test-ca", ())
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self.certificate = folder / "ca.crt"
        self.certificate.write_bytes(self._self_signed().public_bytes(serialization.Encoding.PEM))

    def serving(self, name: str, common_name: str, hosts: tuple[str, ...] = ("127.0.0.1", "localhost")) -> KeyPairFiles:
        """Returns a certificate for a server on `hosts` (addresses or DNS names), valid for clients too."""
        return self._issue(
            name, _name(common_name, ()), hosts, ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
        )

    def client(self, name: str, user: str, groups: tuple[str, ...] = ()) -> KeyPairFiles:
        """Returns a client certificate, which the API server maps to `user` in `groups`."""
        return self._issue(name, _name(user, groups), (), ExtendedKeyUsageOID.CLIENT_AUTH)

    def signing_key(self, name: str) -> tuple[Path, Path]:
        """Creates a key pair and returns the files of the private and the public key: `<name>.key` and `<name>.pub`."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = self._folder / f"{name}.pub"
        public.write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        return self._write_key(name, key), public

    def _self_signed(self) -> x509.Certificate:
        usage = _key_usage(signs_certificates=True)
        builder = _builder(self._name, self._name, self._key.public_key())
        return (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(self._identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _issue(
        self, name: str, subject: x509.Name, hosts: tuple[str, ...], *usages: x509.ObjectIdentifier
    ) -> KeyPairFiles:
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key()
        authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier)
        builder = (
            _builder(subject, self._name, public)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(authority, critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        certificate = self._folder / f"{name}.crt"
        certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return KeyPairFiles(certificate, self._write_key(name, key))

    def _write_key(self, name: str, key: ec.EllipticCurvePrivateKey) -> Path:
        path = self._folder / f"{name}.key"
        path.touch(mode=0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return path


def _name(common_name: str, organizations: tuple[str, ...]) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _LIFETIME)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
