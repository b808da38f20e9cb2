"""Explanations and what-if, answered by the engine of `stowage explain` and `stowage simulate --with`.

Each answer is computed in a forked copy of the process (api.process.forked): it sees one moment, may change what it likes, and
the loop runs on. Bounded: copies at once, questions that wait (of one user, and of all), seconds of one, jobs of a manifest,
and its length and depth.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from admission.dashboard.cluster import Cluster
from admission.engine.explain.explanation import Explanation
from admission.engine.explain.explanation_json import to_wire
from admission.engine.model import Admission
from admission.simulation.run import simulate
from admission.world.documents import Document, Unreadable, parse, unpacked
from admission.world.explaining import UnknownWorkload, explained
from admission.world.files import add_jobs
from admission.world.workload_facts import about, add_states
from admission.world.world import World
from api.errors import StowageError
from api.names import PREFERRED_TOPOLOGY, QUEUE_NAME_LABEL, REQUIRED_TOPOLOGY
from api.process.forked import in_fork

LONGEST_YAML: Final = 256 * 1024
"""Characters of a manifest."""
MOST_JOBS: Final = 20
MOST_PODS: Final = 100_000
"""Pods of one pod set in a question."""
_DEPTH: Final = 40
_NODES: Final = 50_000
"""Values of a manifest with its aliases expanded, and how deep they may nest."""
_AT_ONCE, _WAITING, MOST_OF_ONE = 2, 18, 6
"""Questions that are answered at once, that are answered or wait, and of these the most of one user."""
_SECONDS: Final = 30.0
_FRESH: Final = 5.0
"""Seconds for which an explanation is kept, so that a page that looks again costs nothing."""
_REMEMBERED: Final = 256
WHERE: Final = "the manifest"


class TooBusy(StowageError):
    """Too many questions wait already."""


class BadQuestion(StowageError):
    """The question cannot be read; the message says why."""


class Questions:
    """Answers questions about one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._waiting: Counter[str] = Counter()
        self._known: dict[str, tuple[float, dict[str, Any] | None]] = {}

    async def explanation(self, key: str, share: str) -> dict[str, Any] | None:
        """Returns the explanation of a Workload, None if it is neither waiting nor admitted. Raises TooBusy and ForkFailed.

        `share` says whose question it is.
        """
        made, answer = self._known.get(key, (-_FRESH, None))
        if time.monotonic() - made < _FRESH:
            return answer
        answer = await self._computed(share, lambda: _explanation(self._world(), key))
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[key] = time.monotonic(), answer
        return answer

    async def read(self, text: str, share: str) -> list[Document]:
        """Returns the objects of a manifest. Raises TooBusy, and BadQuestion as `manifests` does."""
        async with self._in_turn(share):
            return await asyncio.to_thread(manifests, text)

    async def what_if(self, documents: Sequence[Document], share: str) -> dict[str, Any]:
        """Returns explanations and places of jobs that do not exist. Raises TooBusy and ForkFailed."""
        answer = await self._computed(share, lambda: self._tried(documents))
        return answer or {"items": [], "errors": []}

    async def _computed(self, share: str, question: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
        async with self._in_turn(share), in_fork(lambda: msgspec.json.encode(question()), _SECONDS) as (size, document):
            answer: dict[str, Any] | None = msgspec.json.decode(await document.readexactly(size))
            return answer

    @asynccontextmanager
    async def _in_turn(self, share: str) -> AsyncIterator[None]:
        if self._waiting[share] >= MOST_OF_ONE:
            raise TooBusy(f"{MOST_OF_ONE} of your questions wait already; ask again in some seconds")
        if self._waiting.total() >= _WAITING:
            raise TooBusy("too many questions of all users at once; ask again in some seconds")
        self._waiting[share] += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting[share] -= 1
            if not self._waiting[share]:
                del self._waiting[share]

    # ---- in the copy

    def _world(self) -> World:
        rules = self._cluster.rules
        world = World.under(rules, time.time())
        world.state = self._cluster.state
        workloads = list(self._cluster.view.workloads.objects.values())
        for workload in workloads:
            world.about[workload.key] = about(workload)
        add_states(world, workloads)
        return world

    def _tried(self, documents: Sequence[Document]) -> dict[str, Any]:
        world = self._world()
        added = add_jobs(world, self._cluster.objects(), documents)
        errors = [str(fault) for fault in world.faults]
        explanations = {key: explained(world, key) for key in added if world.workload(key) is not None}
        runs = simulate(world, run_for=0.0, until=0.0).runs if explanations else {}
        items = [
            {"explanation": to_wire(one), "places": _places(runs[key].admission if key in runs else None)}
            for key, one in explanations.items()
        ]
        return {"items": items, "errors": errors or ([] if items else [f"{WHERE}: holds no job that names a queue"])}


def _explanation(world: World, key: str) -> dict[str, Any] | None:
    try:
        explanation: Explanation = explained(world, key)
    except UnknownWorkload:
        return None
    return to_wire(explanation)


def _places(admission: Admission | None) -> list[dict[str, Any]]:
    return [
        {
            "flavor": ",".join(sorted(set(got.flavors.values()))),
            "host": domain.values[-1],
            "pods": domain.count,
            "podSet": got.name,
        }
        for got in (admission.pod_sets if admission is not None else ())
        if got.assignment is not None
        for domain in got.assignment.domains
    ]


# ---- reading a question


def manifests(text: str) -> list[Document]:
    """Returns the objects of a manifest. Raises BadQuestion if it is too long, too deep or not YAML."""
    if len(text) > LONGEST_YAML:
        raise BadQuestion(f"{WHERE}: has {len(text)} characters, allowed are {LONGEST_YAML}")
    documents: list[Document] = []
    try:
        for document in parse(text.encode(), WHERE, merge=False):
            _check(document.object)
            for each in unpacked(document):
                documents.append(each)
                if len(documents) > MOST_JOBS:
                    raise BadQuestion(f"{WHERE}: holds more than {MOST_JOBS} objects")
    except (Unreadable, UnicodeError) as bad:
        raise BadQuestion(str(bad)) from None
    except (RecursionError, ValueError):
        raise BadQuestion(f"{WHERE}: cannot be read as YAML") from None
    for document in documents:
        meta = document.object.get("metadata")
        if not isinstance(meta, dict):
            raise BadQuestion(f"{WHERE}: {document.kind or 'an object'} has no metadata")
        meta.setdefault("namespace", "default")
        if not isinstance(meta["namespace"], str):
            raise BadQuestion(f"{WHERE}: metadata.namespace is not a text")
    return documents


def _check(value: Any) -> None:
    """Bounds what is walked later: aliases share objects, so that a short text can stand for a huge one."""
    seen, open_ = 0, [(value, 0)]
    while open_:
        one, depth = open_.pop()
        seen += 1
        if depth > _DEPTH or seen > _NODES:
            raise BadQuestion(f"{WHERE}: nests deeper than {_DEPTH} levels or holds more than {_NODES} values")
        if isinstance(one, dict):
            if not all(isinstance(key, str) for key in one):
                raise BadQuestion(f"{WHERE}: a key is not a text")
            open_ += [(each, depth + 1) for each in one.values()]
        elif isinstance(one, list):
            open_ += [(each, depth + 1) for each in one]


def job_of_form(form: dict[str, Any]) -> Document:
    """Returns the Job that a form describes (answers.WhatIfJob)."""
    mode = {"required": REQUIRED_TOPOLOGY, "preferred": PREFERRED_TOPOLOGY}.get(form["level_mode"])
    annotations = {mode: form["level"]} if mode and form["level"] else {}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example.com/image", "resources": {"requests": form["requests"]}}],
    }
    if form["priority_class"]:
        spec["priorityClassName"] = form["priority_class"]
    limit = {"activeDeadlineSeconds": form["seconds"]} if form["seconds"] else {}
    pods = form["pods"]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": form["name"],
            "namespace": form["namespace"],
            "labels": {QUEUE_NAME_LABEL: form["queue"]},
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            **limit,
            "template": {"metadata": {"annotations": annotations}, "spec": spec},
        },
    }
    return Document(WHERE, job)
