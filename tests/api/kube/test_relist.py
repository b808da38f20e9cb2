"""A list that replaces the copy, such as after a 410, is shown in short steps, and leaves other tasks their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.kube import turns
from api.kube.informers.store import Store
from tests.api.kube.clock import until
from tests.api.kube.server import Script, event, listing, watching
from tests.api.kube.test_informer import bookmark, pod, running, script

__all__ = ["script"]
MANY = 100


def test_an_unchanged_object_of_a_list_is_a_step_too_and_the_list_is_freed_on_the_way() -> None:
    """After a 410 nearly all objects are as they were, and a list may hold 100,000."""
    store: Store[dict[str, Any]] = Store("pods")
    shown: list[str] = []
    store.add_handler(lambda change: shown.append(f"{change.type} {change.key}"))
    before = [pod(str(n), n) for n in range(MANY)]
    for _ in store.replace({f"team/{n}": obj for n, obj in enumerate(before)}):
        pass
    shown.clear()
    listed = {f"team/{n}": pod(str(n), n) for n in range(1, MANY)} | {f"team/{MANY}": pod(str(MANY), MANY)}
    left = [len(listed) for _ in store.replace(listed)]
    assert shown == ["DELETED team/0", f"ADDED team/{MANY}"]
    assert left == [*[MANY] * MANY, *range(MANY - 1, -1, -1)]
    assert sorted(store.objects) == sorted(f"team/{n}" for n in range(1, MANY + 1))


async def test_a_list_after_410_leaves_other_tasks_a_turn_after_each_object(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [pod(str(n), n + 1) for n in range(MANY)]
    script.then(
        listing(*pods, version="1000"),
        watching(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})),
        listing(*pods, version="2000"),
        watching(bookmark(2001), event("ADDED", pod("late", 2002))),
    )
    steps = turn = 0
    replace = Store.replace

    def noted(store: Store[Any], items: dict[str, Any]) -> Iterator[None]:
        nonlocal steps
        seen = -1
        for _ in replace(store, items):
            assert seen < turn, "no other task ran since the last object"
            seen = turn
            steps += 1
            yield

    monkeypatch.setattr(Store, "replace", noted)
    monkeypatch.setattr(turns, "TURN", -1.0)

    async def other() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    beside = asyncio.create_task(other())
    async with running(script, tmp_path) as run:
        await until(lambda: "ADDED team/late@2002" in run.changes)
    beside.cancel()
    assert steps == 3 * MANY, "each listed object, and each that was known before the second list"
    assert len(run.changes) == MANY + 1
