"""`stowage dashboard` as a user starts it: a process with a kubeconfig, and what its page gets from it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.scenarios.site import eventually


@dataclass
class Command:
    """A running command: the address of its page, and all that it has printed."""

    url: str
    printed: list[str]

    async def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Returns the status and the answer of a route of the API, or the text of a file of the page."""
        async with (
            aiohttp.ClientSession() as session,
            session.request("POST" if body else "GET", self.url + path, json=body) as response,
        ):
            text = await response.text()
            return response.status, json.loads(text) if path.startswith("api/") else text

    async def shows(self, path: str) -> Any:
        """Returns an answer of the API once there is one: before, the cluster is being read."""

        async def answer() -> tuple[int, Any] | None:
            found = await self.ask(f"api/v1/{path}")
            return None if found[0] == 503 else found

        return await eventually(f"{path} is answered", answer, 60)

    async def prints(self, words: str) -> str:
        """Returns the first line with these words, once it is printed."""

        async def found() -> str | None:
            return next((line for line in self.printed if words in line), None)

        return await eventually(f"{words!r} is printed", found, 60)


@contextlib.asynccontextmanager
async def opened(kubeconfig: Path) -> AsyncIterator[Command]:
    """Runs the command on a free port, without a browser."""
    words = ("dashboard", "--port=0", "--no-open", f"--kubeconfig={kubeconfig}")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "admission.cli", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    first = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
    assert first.endswith("/ (Ctrl-C ends it)\n"), first
    command = Command(first.partition(" ")[0], [])

    async def read(stdout: asyncio.StreamReader) -> None:
        async for line in stdout:
            command.printed.append(line.decode())

    reading = asyncio.create_task(read(process.stdout))
    try:
        yield command
    finally:
        process.terminate()
        await process.wait()
        await reading


def in_namespace(kubeconfig: Path, namespace: str) -> Path:
    """Returns the file with another namespace of its context, as `kubectl config set-context --namespace` writes it."""
    config = yaml.safe_load(kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    kubeconfig.write_text(yaml.safe_dump(config))
    return kubeconfig
