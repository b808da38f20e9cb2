"""Objects that are wrong in one or two random fields: none ends a process, an informer or the work of others.

The seeds are the samples and the manifests of users. A value is changed as an API server would still accept it: a text
into a hostile text, a number into another one, a field or a list entry removed, and any of our annotations and labels set.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from api import names
from api.errors import ApiError, NotFound
from api.kube.client import PatchKind
from api.kube.resources import ALL, CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, PODS, Resource
from tests.attacks.conftest import TENANT, Battlefield
from tests.scenarios.site import eventually

SAMPLES = Path(__file__).parents[2] / "config" / "samples"
OBJECTS = 150
AT_ONCE = 8
KEYS = sorted(value for key, value in vars(names).items() if key.isupper() and isinstance(value, str) and "/" in value)
KNOWN = {(each.api_version, each.kind): each for each in ALL}
TEXTS = (
    "", " ", "0", "-1", "1", "1.5", "1e9", "1e999", "9" * 400, "a" * 300, "٣", "1Ti", "5m", "true", "null", "{}", "[]",
    "[" * 300, "[[]]", '{"a":1}', '[{"name":1}]', "x/y/z", "/", "=", ",", "a=b,c", "%zz", "{{", "\n", "NaN", "Infinity",
    "0x10", "2026-01-02T15:04:05Z", "99999-01-01T00:00:00Z", "../..", "kube-system", TENANT, "lq",
)  # fmt: skip
NUMBERS = (0, -1, 1, 2, 9, 300, -(2**31))
FieldPath = tuple[str | int, ...]


def documents() -> list[dict[str, Any]]:
    """The samples of kinds that the stage serves."""
    found = [
        each
        for path in sorted(SAMPLES.glob("*.yaml"))
        for each in yaml.safe_load_all(path.read_text())
        if isinstance(each, dict)
    ]
    return [each for each in found if (each.get("apiVersion"), each.get("kind")) in KNOWN]


def _paths(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _paths(inner, (*path, key))


def _at(value: Any, path: FieldPath) -> Any:
    for step in path:
        value = value[step]
    return value


def _changed(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice(NUMBERS)
    if isinstance(value, str):
        return rng.choice(TEXTS)
    return type(value)()


def spoiled(document: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A copy with one to three changes."""
    obj = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if rng.random() < 0.4:
            template = (obj.get("spec") or {}).get("template")
            inner = isinstance(template, dict) and rng.random() < 0.5
            holder = template if inner and isinstance(template, dict) else obj
            metadata = holder.setdefault("metadata", {})
            metadata.setdefault(rng.choice(("annotations", "labels")), {})[rng.choice(KEYS)] = rng.choice(TEXTS)
            continue
        inside = [path for path in _paths(obj) if path[0] not in ("apiVersion", "kind", "metadata")]
        if not inside:
            continue
        path = rng.choice(inside)
        parent = _at(obj, path[:-1])
        if rng.random() < 0.2:
            del parent[path[-1]]
        else:
            parent[path[-1]] = _changed(parent[path[-1]], rng)
    return obj


@pytest.mark.asyncio(loop_scope="package")
@pytest.mark.parametrize("seed", [16])
async def test_spoiled_objects_harm_nobody(battlefield: Battlefield, seed: int) -> None:
    """An administrator writes them, so that also queues, flavors and declarations are among them."""
    rng, kinds, limit = random.Random(seed), documents(), asyncio.Semaphore(AT_ONCE)
    written: list[tuple[Resource, str, str | None]] = []
    answers: list[tuple[dict[str, Any], ApiError]] = []

    async def write(index: int, first: dict[str, Any], second: dict[str, Any]) -> None:
        resource = KNOWN[first["apiVersion"], first["kind"]]
        namespace = TENANT if resource.namespaced else None
        name = f"spoiled-{seed}-{index}"
        for obj in (first, second):
            obj.setdefault("metadata", {}).update({"name": name, "namespace": namespace})
        async with limit:
            try:
                await battlefield.admin.create(resource, first)
            except ApiError as refused:
                answers.append((first, refused))
                return
            written.append((resource, name, namespace))
            try:
                stored = await battlefield.admin.get(resource, name, namespace)
                second["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
                await battlefield.admin.replace(resource, second)
            except ApiError as refused:
                answers.append((second, refused))

    drawn = [rng.choice(kinds) for _ in range(OBJECTS)]
    await asyncio.gather(*(write(n, spoiled(each, rng), spoiled(each, rng)) for n, each in enumerate(drawn)))
    assert len(written) > OBJECTS / 4
    assert [each for each in answers if not 400 <= each[1].status < 500] == []
    # Some of the flavors, queues and jobs are still right, and may use the nodes of the honest tenant.
    for resource, name, namespace in reversed(written):
        with contextlib.suppress(NotFound):
            await battlefield.admin.delete(resource, name, namespace, propagation="Background")
    await eventually("no pod of theirs is left", lambda: _gone(battlefield))
    await eventually("the queue of their elastic quotas is gone", lambda: _unbounded(battlefield))
    # A gang that names no queue gets one in its namespace, and an elastic quota makes its namespace managed. Both stay, and
    # other attacks need that they are not there.
    for queue in (await battlefield.admin.list(LOCAL_QUEUES, TENANT)).items:
        if queue["metadata"]["name"] != "lq":
            await battlefield.site.remove(LOCAL_QUEUES, queue["metadata"]["name"])
    unmanaged = {"metadata": {"labels": {names.MANAGED_NAMESPACE: None}}}
    await battlefield.admin.patch(NAMESPACES, TENANT, unmanaged, kind=PatchKind.MERGE)


async def _gone(battlefield: Battlefield) -> bool:
    page = await battlefield.admin.list(PODS, TENANT)
    return not any(pod["metadata"]["name"].startswith("spoiled-") for pod in page.items)


async def _unbounded(battlefield: Battlefield) -> bool:
    page = await battlefield.admin.list(CLUSTER_QUEUES, label_selector=f"{names.ELASTIC_QUOTA_LABEL}={TENANT}")
    return not page.items
