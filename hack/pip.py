"""Installs a package into a folder with the pip of this Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_QUIETLY = ("--quiet", "--disable-pip-version-check", "--root-user-action=ignore")


def install(requirement: str, target: Path) -> None:
    """Installs the package without its dependencies. Raises CalledProcessError with pip's errors in `stderr`."""
    command = [sys.executable, "-m", "pip", "install", *_QUIETLY, "--no-deps", "--target", str(target), requirement]
    subprocess.run(command, capture_output=True, text=True, check=True)
