"""Builds the control plane's programs once and keeps them in a cache folder that every checkout on the machine shares.

A build is a folder `controlplane/<key>-go<version>` of the cache, `key` being a hash of go.mod, go.sum and the build
flags. It holds `bin/` and the JobSet objects as JSON, so that starting a cluster needs neither Go nor its module cache.
A folder appears whole (rename) or not at all, and a lock keeps two builders from doing the work twice. What few tests need
is a module of its own (`Recipe`), so nothing else waits for it: leaderworkerset/. Its go.mod has the control plane's versions,
so that Go's build cache has most of it. Called by the commands and by fixtures.py.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hack.controlplane import manifests, toolchain
from hack.controlplane.errors import BuildError
from hack.controlplane.progress import Progress, follow

HERE = Path(__file__).resolve().parent
PROGRAMS = ("etcd", "jobset", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
KUBERNETES = "v1.36.3"  # version that the servers report; equals k8s.io/kubernetes in go.mod (a test compares them)
_VERSION = "k8s.io/component-base/version"
LDFLAGS = (
    f"-s -w -X {_VERSION}.gitVersion={KUBERNETES} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=36"
    f" -X {_VERSION}.gitTreeState=clean -X {_VERSION}.gitCommit=module -X {_VERSION}.buildDate=1970-01-01T00:00:00Z"
)
FLAGS = ("-trimpath", f"-ldflags={LDFLAGS}")
# No cgo: static binaries without a C compiler. GOTOOLCHAIN=local: build with the selected Go, never download another.
GO_ENV = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off", "GOTOOLCHAIN": "local"}
USUAL = "usually 5 to 15 minutes the first time on 2 cores"
# `go list` reports this for a package whose compiled form is in Go's build cache.
_CACHED = "not installed but available in build cache"


Extract = Callable[[Path], Mapping[str, list[manifests.Manifest]]]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A build from one go.mod: its tools, and objects that modules contain.

    `name` names the folder in the cache. Tools have the names of their packages, which `renamed` changes. `shipped` maps a
    module to a function that reads objects from its folder, by the name of the JSON file that stores them. `tags` are those
    of Go's build.
    """

    name: str
    folder: Path
    programs: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    shipped: Mapping[str, Extract] = field(default_factory=dict)
    tags: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of Go's build."""
        return (*FLAGS, f"-tags={','.join(self.tags)}") if self.tags else FLAGS


CONTROL_PLANE = Recipe(
    "controlplane",
    HERE,
    PROGRAMS,
    {"server": "etcd"},
    {
        "sigs.k8s.io/jobset": lambda module: {
            "jobset-crds": manifests.jobset_crds(module),
            "jobset-webhooks": manifests.jobset_webhooks(module),
        }
    },
)


@dataclass(frozen=True, slots=True)
class Tools:
    """A finished build."""

    folder: Path

    def program(self, name: str) -> Path:
        """Returns the path of one of the recipe's programs."""
        return self.folder / "bin" / name

    def objects(self, name: str) -> list[manifests.Manifest]:
        """Returns the objects that a module contains, by the name of their file."""
        return _read_list(self.folder / f"{name}.json")

    def jobset_crds(self) -> list[manifests.Manifest]:
        return self.objects("jobset-crds")

    def jobset_webhooks(self) -> list[manifests.Manifest]:
        return self.objects("jobset-webhooks")


def _read_list(path: Path) -> list[manifests.Manifest]:
    loaded: list[manifests.Manifest] = json.loads(path.read_text())
    return loaded


def cache_root() -> Path:
    """Returns $STOWAGE_CACHE, else stowage/ in the user's cache folder."""
    if own := os.environ.get("STOWAGE_CACHE"):
        return Path(own).resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stowage"


def key(module_files: tuple[bytes, ...], flags: tuple[str, ...] = FLAGS, machine: str = platform.machine()) -> str:
    """Returns a hash of a build's inputs, without Go's version: any Go may build the same sources."""
    digest = hashlib.sha256()
    for part in (*module_files, *(flag.encode() for flag in flags), machine.encode()):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]


def current_key(recipe: Recipe = CONTROL_PLANE) -> str:
    return key(((recipe.folder / "go.mod").read_bytes(), (recipe.folder / "go.sum").read_bytes()), recipe.flags)


def installed(root: Path | None = None, recipe: Recipe = CONTROL_PLANE) -> Tools | None:
    """Returns the finished build of the current go.mod, or None."""
    builds = sorted(((root or cache_root()) / recipe.name).glob(f"{current_key(recipe)}-go*/bin"))
    return Tools(builds[-1].parent) if builds else None


def ensure(root: Path | None = None, recipe: Recipe = CONTROL_PLANE) -> Tools:
    """Returns the finished build, after building it if missing. Raises BuildError."""
    root = root or cache_root()
    if (tools := installed(root, recipe)) is not None:
        return tools
    with _lock(root / recipe.name / f"{current_key(recipe)}.lock", recipe.name):
        # another process may have finished the build while this one waited for the lock
        return installed(root, recipe) or _build(root, recipe)


@contextmanager
def _lock(path: Path, name: str) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another process builds {name}: waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _build(root: Path, recipe: Recipe) -> Tools:
    chosen = toolchain.find((recipe.folder / "go.mod").read_text(), root)
    target = root / recipe.name / f"{current_key(recipe)}-go{chosen.version}"
    partial = target.parent / f"building-{current_key(recipe)}"  # a leftover of a killed build, as the lock is held
    shutil.rmtree(partial, ignore_errors=True)
    try:
        _compile(chosen.go, recipe, partial / "bin")
        _extract(chosen.go, recipe, partial)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Tools(target)


def _compile(go: Path, recipe: Recipe, out: Path) -> None:
    progress = Progress(sys.stderr, USUAL)
    progress.stage("downloading modules", None)
    stale = _run(go, recipe, progress, "list", "-deps", *recipe.flags, "-f", "{{.StaleReason}}", "tool").splitlines()
    progress.stage("compiling", sum(reason != _CACHED for reason in stale))
    _run(go, recipe, progress, "build", "-v", *recipe.flags, "-o", f"{out}/", "tool")
    # `go build` names programs by their packages: etcd's main package is called `server`
    for old, new in recipe.renamed.items():
        (out / old).rename(out / new)
    missing = [name for name in recipe.programs if not (out / name).exists()]
    if missing:
        raise BuildError(f"go build succeeded but did not make {', '.join(missing)}: see the tool lines of go.mod")
    progress.done(f"built {', '.join(recipe.programs)}")


def _run(go: Path, recipe: Recipe, progress: Progress, *args: str) -> str:
    """Runs a Go command in the module's folder, shows its stderr as progress, and returns its stdout. Raises BuildError."""
    with tempfile.TemporaryFile("w+") as stdout:
        process = subprocess.Popen(
            [go, *args], cwd=recipe.folder, env={**os.environ, **GO_ENV}, stdout=stdout, stderr=subprocess.PIPE
        )
        try:
            lines = follow(process, progress)
        except BaseException:
            process.kill()
            raise
        if process.returncode:
            raise BuildError(f"go {args[0]} failed with {process.returncode}:\n" + "\n".join(lines[-40:]))
        stdout.seek(0)
        return stdout.read()


def _extract(go: Path, recipe: Recipe, folder: Path) -> None:
    for module, read in recipe.shipped.items():
        place = _run(go, recipe, Progress(sys.stderr, ""), "list", "-m", "-f", "{{.Dir}}", module)
        for name, objects in read(Path(place.strip())).items():
            (folder / f"{name}.json").write_text(json.dumps(objects))
