"""The TLS context of a server, whose certificate can be replaced while it serves. certificates.py loads it."""

from __future__ import annotations

import ssl
import tempfile
import time
from pathlib import Path

from admission.metrics.certificates import CERTIFICATE_REMAINING, SERVING
from admission.serving.certificate_authority import ServingCertificate


class Serving:
    """A TLS context of at least version 1.2, whose certificate can be replaced at any time."""

    def __init__(self, clients: Path | None = None) -> None:
        """`clients` names a file of CA certificates that client certificates must chain to; None accepts any client."""
        self.context = _context()
        self.pair: ServingCertificate | None = None
        if clients is not None:
            self.context.load_verify_locations(clients)
            self.context.verify_mode = ssl.CERT_REQUIRED

    def load(self, pair: ServingCertificate) -> None:
        """Uses `pair` from the next handshake on. Raises ssl.SSLError and keeps the old pair if key and certificate differ.

        The ssl module loads only from files, so the pair is in a private temporary one for a moment.
        """
        if pair == self.pair:
            return
        # In no thread: a cancelled wait for it would leave the key's file behind.
        with tempfile.TemporaryDirectory(prefix="stowage-") as folder:
            path = Path(folder) / "serving.pem"
            path.write_bytes(pair.certificate + b"\n" + pair.key)
            _context().load_cert_chain(path)
            self.context.load_cert_chain(path)
        self.pair = pair
        begin, end = pair.validity()
        remaining = CERTIFICATE_REMAINING.labels(SERVING)
        remaining.set_function(lambda: (end - time.time()) / max(1.0, end - begin))


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
