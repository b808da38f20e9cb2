"""Errors of the control plane; messages name the program and its log."""

from __future__ import annotations


class ControlPlaneError(Exception):
    """A server ended or did not become ready, or a command failed."""


class BuildError(ControlPlaneError):
    """The binaries could not be built; the message ends with Go's output."""


class RequestError(ControlPlaneError):
    """The API server's status was not 2xx; `status` is the HTTP status, `body` the response's text."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        self.status, self.body = status, body
        super().__init__(f"{method} {path}: {status}: {body[-2000:]}")
