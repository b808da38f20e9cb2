"""Objects of every dialect come and go, and the processes keep nothing of them: no container grows, no series, no task is left.

The processes run as tasks of this one (in_process.py), so that the test can walk through what they hold (retained.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from prometheus_client import generate_latest

from admission.cli.local_cluster.embedded import EmbeddedCluster, embedded
from api.kube import owned_series
from tests.scenarios.all_dialects import played
from tests.scenarios.in_process import OwnTasks
from tests.scenarios.retained import grown, sizes
from tests.scenarios.site import eventually

_ENVIRONMENT = {"STOWAGE_CONTROLLER__EVENTS_PER_SECOND": "1000", "STOWAGE_CONTROLLER__QUEUE_STATUS_PERIOD": "0.2"}
BOUNDED = (
    # docs/operations.md tells these bounds.
    "queues.evictions.",  # evictions of the last hour and more, by names: a Workload may come back under its name
    "_capacity._offered",  # sizes of nodes
    # How many there are depends on the kinds of objects and the failures of writes, not on the number of objects.
    "read_workload._named",
    "api.kube.metrics.",
    "connection._sockets",
    "_capacity.columns.",  # names of resources since the start
    "placement._takes._kept",  # the last four questions
)
"""Parts of the paths of containers that may grow."""
_ROUNDS = 3
_PACE = 1.0
"""Seconds between two looks, each of which takes a quarter of a second of a core."""
_numbers = itertools.count()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[EmbeddedCluster, OwnTasks]]:
    own, folder = OwnTasks(), tmp_path_factory.mktemp("retained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owned_series, "PERIOD", 0.5)
        patch.setattr(gc, "freeze", lambda: None)  # it would hide this process's garbage from later tests
        async with embedded(folder, _ENVIRONMENT, launch=own.start) as found:
            yield found, own


@pytest.mark.asyncio(loop_scope="session")
async def test_objects_that_are_gone_leave_nothing_in_memory(cluster: tuple[EmbeddedCluster, OwnTasks]) -> None:
    found, own = cluster
    await played(found.kube, f"round{next(_numbers)}")
    await _settled(own)
    tasks, suspects = _tasks(), None
    for _ in range(_ROUNDS):
        name = f"round{next(_numbers)}"
        more = await _retained(own, played(found.kube, name))
        # What depends on the number of objects grows with each round; a cache that an explanation fills grows once.
        suspects = more if suspects is None else {path: pair for path, pair in more.items() if path in suspects}
        if not suspects:
            break
    assert not suspects, "\n".join(f"{path}: {was} -> {now}" for path, (was, now) in sorted(suspects.items()))
    await eventually("no series is left of objects that are gone", lambda: _forgotten(name))
    assert _tasks() - tasks == Counter(), "tasks that no one ends"


async def _forgotten(name: str) -> bool:
    return f'"{name}' not in generate_latest().decode()


async def _retained(own: OwnTasks, playing: Awaitable[None]) -> dict[str, tuple[int, int]]:
    """The paths of the containers that are larger after this round than before it, with both sizes."""
    before = sizes(own.tasks.values())
    await playing
    more: dict[str, tuple[int, int]] = {}

    async def flat() -> bool:
        nonlocal more
        now = sizes(own.tasks.values())
        more = {path: pair for path, pair in grown(before, now).items() if not any(part in path for part in BOUNDED)}
        if more:
            await asyncio.sleep(_PACE)
        return not more

    with contextlib.suppress(AssertionError):
        await eventually("nothing has grown", flat, seconds=30)
    return more


async def _settled(own: OwnTasks) -> None:
    """Waits until what the first round has left does not change any more."""
    seen: Counter[str] = Counter()

    async def same() -> bool:
        nonlocal seen
        before, seen = seen, sizes(own.tasks.values())
        return not grown(seen, before)

    await eventually("what is kept does not shrink any more", same)


def _tasks() -> Counter[str]:
    """Tasks that bear a name, by it; those of connections have none."""
    names = (task.get_name() for task in asyncio.all_tasks())
    return Counter(name for name in names if not name.startswith("Task-"))


def test_the_walk_finds_what_grows_in_a_closure_a_slot_and_a_task() -> None:
    class Slotted:
        __slots__ = ("kept",)

        def __init__(self) -> None:
            self.kept: list[int] = []

    held, slotted = {"a": 1}, Slotted()

    async def main(inner: dict[str, Callable[[], object]]) -> None:
        await asyncio.sleep(0)
        assert inner

    async def look() -> tuple[Counter[str], Counter[str]]:
        task = asyncio.create_task(main({"of": lambda: (held, slotted)}), name="t")
        await asyncio.sleep(0)
        before = sizes([task])
        held["b"] = 2
        slotted.kept.append(1)
        after = sizes([task])
        await task
        return before, after

    before, after = asyncio.run(look())
    paths = grown(before, after)
    assert [pair for path, pair in paths.items() if path.endswith("<held>")] == [(1, 2)]
    assert [pair for path, pair in paths.items() if path.endswith(".kept")] == [(0, 1)]
