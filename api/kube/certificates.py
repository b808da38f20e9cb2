"""The files into which kubernetes-asyncio writes keys and certificates of a kubeconfig: there only while it reads them.

The library keeps them until the process ends, and one that is killed leaves a private key behind. It needs them only while it
reads a configuration and builds the TLS context, but remembers their names for the next time; so they are taken away after
that, and put back before it reads again. Called by connection.py.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Files:
    """Of one process, for any number of readers at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = 0
        self._folder: Path | None = None
        self._contents: dict[str, bytes] = {}

    @contextmanager
    def there(self) -> Iterator[str]:
        """The folder, with what was in it before. No other user may read it."""
        with self._lock:
            folder = self._opened()
        try:
            yield str(folder)
        finally:
            with self._lock:
                self._closed(folder)

    def _opened(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="stowage-"))
        elif not self._readers:
            self._folder.mkdir(mode=0o700)
            for name, content in self._contents.items():
                (self._folder / name).touch(mode=0o600)
                (self._folder / name).write_bytes(content)
        self._readers += 1
        return self._folder

    def _closed(self, folder: Path) -> None:
        self._readers -= 1
        if not self._readers:
            self._contents = {file.name: file.read_bytes() for file in folder.iterdir()}
            shutil.rmtree(folder)


FILES = Files()
"""The library's memory of the names is the process's, too."""
