"""Deletes the files to which kubernetes-asyncio writes a kubeconfig's keys and certificates, except while it reads them.

The library keeps these files until the process ends, so a killed process leaves a private key behind. It reads them only to
load a configuration and to build the TLS context, but remembers their names. Therefore they are deleted afterwards and
restored before the next use. connection.py calls it.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Files:
    """The files of one process, for concurrent readers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = 0
        self._folder: Path | None = None
        self._contents: dict[str, bytes] = {}

    @contextmanager
    def folder_with_files(self) -> Iterator[str]:
        """Yields the folder with its previous files. No other user may read it."""
        with self._lock:
            folder = self._open_folder()
        try:
            yield str(folder)
        finally:
            with self._lock:
                self._close_folder(folder)

    def _open_folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="stowage-"))
        elif not self._readers:
            self._folder.mkdir(mode=0o700)
            for name, content in self._contents.items():
                (self._folder / name).touch(mode=0o600)
                (self._folder / name).write_bytes(content)
        self._readers += 1
        return self._folder

    def _close_folder(self, folder: Path) -> None:
        self._readers -= 1
        if not self._readers:
            self._contents = {file.name: file.read_bytes() for file in folder.iterdir()}
            shutil.rmtree(folder)


FILES = Files()
"""One instance per process, because the library's memory of file names is per process too."""
