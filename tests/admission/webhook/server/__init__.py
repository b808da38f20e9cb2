"""The webhook's HTTPS server."""
