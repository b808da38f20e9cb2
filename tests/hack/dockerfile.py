"""Runs a Dockerfile's steps as written where no container engine is: in a copy of this machine's root folder.

Each stage gets an overlay over `/` and runs its commands in a chroot there, so that absolute paths are those of the file. Only
the instructions that the project's Dockerfile uses are known; another one raises ValueError.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SILENT: Final = frozenset({"EXPOSE", "LABEL"})
"""Instructions that change no file and no process."""
MOUNTED: Final = ("dev", "proc")


@dataclass
class Stage:
    """A stage's root folder, and the state that its instructions set."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    command: list[str] = field(default_factory=list)


def instructions(text: str) -> list[tuple[str, str]]:
    """Returns the instructions of a Dockerfile, each with its text on one line."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(name.upper(), rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]


class Build:
    """One build. `folder` gets the root folders of the stages, `context` is what COPY reads."""

    def __init__(self, context: Path, folder: Path, arguments: dict[str, str]) -> None:
        self._context, self._folder, self._arguments = context, folder, arguments
        self._mounts = contextlib.ExitStack()
        self.stages: dict[str, Stage] = {}

    def __enter__(self) -> Build:
        return self

    def __exit__(self, *_: object) -> None:
        self._mounts.close()

    def run(self, text: str) -> Stage:
        """Runs all instructions and returns the last stage. Raises CalledProcessError if a command fails."""
        stage = Stage(Path("/nowhere"))
        for name, rest in instructions(text):
            match name:
                case "FROM":
                    *_, last = rest.split()
                    stage = self.stages[last if " AS " in rest else "last"] = self._from()
                case "ARG":
                    key, _, value = rest.partition("=")
                    self._arguments.setdefault(key, value)
                    stage.environment[key] = self._arguments[key]
                case "ENV":
                    stage.environment |= dict(word.split("=", 1) for word in shlex.split(self._expanded(stage, rest)))
                case "WORKDIR":
                    stage.folder = rest
                    self._inside(stage, rest).mkdir(parents=True, exist_ok=True)
                case "USER":
                    stage.user = rest
                case "COPY":
                    self._copy(stage, rest.split())
                case "RUN":
                    self.call(stage, ["sh", "-c", rest])
                case "ENTRYPOINT" | "CMD":
                    stage.command += [word.strip(' "') for word in rest.strip("[]").split(",")]
                case _ if name not in SILENT:
                    raise ValueError(f"Dockerfile: {name} {rest}: unknown instruction")
        return stage

    def call(self, stage: Stage, command: list[str], seconds: float = 900.0) -> str:
        """Runs a command in a stage, as its user; returns its output. Raises CalledProcessError."""
        user = ["--userspec", stage.user] if stage.user != "0:0" else []
        enter = f"cd {shlex.quote(stage.folder)} && exec {shlex.join(command)}"
        environment = {**os.environ, **stage.environment}
        for name in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"):
            if name not in stage.environment:
                environment.pop(name, None)
        done = subprocess.run(
            ["chroot", *user, str(stage.root), "sh", "-c", enter],
            env=environment, capture_output=True, text=True, timeout=seconds,
        )  # fmt: skip
        if done.returncode:
            print(done.stdout, done.stderr, file=sys.stderr)
            done.check_returncode()
        return done.stdout

    def _from(self) -> Stage:
        base = self._folder / f"stage{len(self.stages)}"
        upper, work, root = (base / name for name in ("upper", "work", "root"))
        for each in (upper, work, root):
            each.mkdir(parents=True)
        self._mount(root, "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}")
        for name in MOUNTED:
            self._mount(root / name, "--bind", f"/{name}")
        # A base image's interpreter is for every user; this machine's may lie in a home.
        (root / "root").chmod(0o755)
        return Stage(root, {"PATH": os.environ["PATH"]})

    def _mount(self, place: Path, *options: str) -> None:
        subprocess.run(["mount", *options, str(place)], check=True, capture_output=True)
        self._mounts.callback(subprocess.run, ["umount", "-l", str(place)], check=True)

    def _copy(self, stage: Stage, words: list[str]) -> None:
        source = self._context
        if words[0].startswith("--from="):
            source = self.stages[words.pop(0).removeprefix("--from=")].root
        *paths, target = words
        place = self._inside(stage, target)
        for path in paths:
            origin = source / path.lstrip("/")
            if origin.is_dir():
                shutil.copytree(origin, place, symlinks=True, dirs_exist_ok=True, ignore=_leftovers)
            else:
                to = place / origin.name if target.endswith("/") else place
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(origin, to)

    def _inside(self, stage: Stage, path: str) -> Path:
        return stage.root / (path if path.startswith("/") else f"{stage.folder}/{path}").lstrip("/")

    def _expanded(self, stage: Stage, text: str) -> str:
        return re.sub(r"\$\{?(\w+)\}?", lambda expected: stage.environment.get(expected[1], ""), text)


def _leftovers(folder: str, names: list[str]) -> Iterator[str]:
    """What a checkout that was used contains beyond its files."""
    return (name for name in names if name == "__pycache__" and "/site-packages/" not in f"{folder}/")
