"""An HTTPS server that untrusted clients may reach: webhook, visibility API and dashboard use it.

bounded_server          each request gets an answer or a refusal: start here
connections             listens, and bounds what a client may hold
connection_limits       these bounds
handshakes              TLS handshakes, one at a time
tls                     a certificate that is replaced while the server runs
certificates            stores, publishes and reloads it
certificate_authority   plans its rotation
"""
