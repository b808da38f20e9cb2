"""What can go wrong with the control plane; every message says which program and where its log is."""

from __future__ import annotations


class ControlPlaneError(Exception):
    """A server ended or never became ready, or a helper call was refused."""


class BuildError(ControlPlaneError):
    """The binaries could not be built; the message ends with what Go said."""


class RequestError(ControlPlaneError):
    """The API server's answer was not 2xx; `status` is the HTTP status, `body` its text."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        self.status, self.body = status, body
        super().__init__(f"{method} {path}: {status}: {body[-2000:]}")
