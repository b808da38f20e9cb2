"""Resolves dependencies to requirements.lock, the installer to hack/bootstrap.lock, and Playwright to hack/page.lock.

The locks have versions with hashes for every supported Python, and name no host. Run by `make lock`; pip installs the resolver
(uv) into a temporary folder.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from hack import pip

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
# the installer itself
BOOTSTRAP = ROOT / "hack" / "bootstrap.lock"
# what drives the browser of `make e2e-page`: large, and nothing else needs it
BROWSER = ROOT / "hack" / "page.lock"
# the build backend for the editable install, which then needs no build isolation
EXTRA = "hatchling>=1.27\neditables\n"


def main() -> None:
    """Writes the locks. Raises CalledProcessError if pip or the resolver fails."""
    with tempfile.TemporaryDirectory() as folder:
        pip.install("uv", Path(folder))
        extra = Path(folder) / "build.in"
        extra.write_text(EXTRA)
        installer = Path(folder) / "bootstrap.in"
        installer.write_text("uv\n")
        _resolve(folder, LOCK, ["--extra", "dev", "pyproject.toml", str(extra)])
        _resolve(folder, BOOTSTRAP, [str(installer)])
        browser = Path(folder) / "page.in"
        browser.write_text("playwright>=1.50\n")
        _resolve(folder, BROWSER, [str(browser)])


def _resolve(folder: str, lock: Path, sources: list[str]) -> None:
    resolver = [str(Path(folder) / "bin" / "uv"), "pip", "compile", "--quiet", "--universal", "--generate-hashes"]
    options = ["--python-version", "3.11", "--no-header", "--no-annotate", "--no-emit-index-url"]
    environment = {**os.environ, "PYTHONPATH": folder}
    subprocess.run([*resolver, *options, "-o", str(lock), *sources], check=True, cwd=ROOT, env=environment)


if __name__ == "__main__":
    main()
