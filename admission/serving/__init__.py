"""An HTTPS server that untrusted clients may reach: the webhook and the visibility API use it.

Modules: connections (listens and bounds what a client may hold; start here), connection_limits, handshakes (TLS handshakes one
at a time), tls (a certificate that is replaced while the server runs), certificates (stores, publishes and reloads it),
certificate_authority (plans rotations; pure).
"""
