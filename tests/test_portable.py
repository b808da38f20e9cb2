"""The repository names no machine: no path of one, and no host besides example names and the loopback address."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
PATHS = re.compile(r"(?<![\w./}-])/(?:work|home|root|Users|mnt|tmp)/(?!\.\.\.)[\w.-]+")
HOSTS = re.compile(r"https?://(?:[\w:.-]+@)?([\w.-]+)")
MOUNTS = {"/tmp/stowage-webhook", "/tmp/stowage-dashboard", "/tmp/k8s-webhook-server"}
"""Folders inside containers, named by manifests: ours, and that of controller-runtime."""
PUBLIC = {
    "127.0.0.1",
    "localhost",
    "example.com",
    "evil",
    "github.com",
    "www.apache.org",
    "www.w3.org",
    "json-schema.org",
    "modelcontextprotocol.io",
    "stowage.dev",
    "...",
}
RESERVED = (".example", ".svc")
"""Ends of names that belong to nobody (RFC 2606), or to a cluster's Services."""


def tracked() -> list[str]:
    """The files of the repository, as git lists them; without git, those that a release would hold."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git repository")
    return [
        name for name in listed.stdout.split("\0") if name and not name.endswith((".sum", ".lock", "package-lock.json"))
    ]


def test_no_file_names_a_machine() -> None:
    found = set()
    for name in tracked():
        if Path(name) == Path(__file__).relative_to(PROJECT) or not (PROJECT / name).is_file():
            continue
        text = (PROJECT / name).read_text(errors="replace")
        found |= {(name, path) for path in PATHS.findall(text) if path not in MOUNTS}
        found |= {(name, host) for host in HOSTS.findall(text) if host not in PUBLIC and not host.endswith(RESERVED)}
    assert found == set()
