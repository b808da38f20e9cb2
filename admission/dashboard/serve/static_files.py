"""The built page: read and compressed once at start, served by exact path, so that no path leads out of the folder."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[1] / "static"
INDEX: Final = "/index.html"
_FOREVER, _ASK = "public, max-age=31536000, immutable", "no-cache"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file, plain and compressed, with its type and tag. Names of assets change with their content, so browsers keep them."""

    body: bytes
    packed: bytes
    content_type: str
    tag: str
    caching: str


def load(folder: Path = FOLDER) -> dict[str, StaticFile]:
    """Returns the files by path, `/` for the page."""
    files: dict[str, StaticFile] = {}
    for file in sorted(folder.rglob("*")):
        if not file.is_file():
            continue
        path = "/" + file.relative_to(folder).as_posix()
        body = file.read_bytes()
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        tag = hashlib.sha256(body).hexdigest()[:32]
        files[path] = StaticFile(
            body, gzip.compress(body, mtime=0), kind, tag, _FOREVER if path.startswith("/assets/") else _ASK
        )
    if INDEX in files:
        files["/"] = files[INDEX]
    return files
