"""Which job a Workload belongs to: by group, kind and name; the version in its reference does not count."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from admission.controllers.watch.caches import BY_JOB, file_owned, owner_key
from api.kube import turns
from api.kube.informers.store import Store
from api.workloads import Workload
from tests.builders import workload

KINDS = {("ships.example.com", "Ship"): "ships.example.com/ship", ("", "Pod"): "pod"}


@pytest.mark.parametrize(
    ("api_version", "kind", "key"),
    [
        pytest.param("ships.example.com/v1", "Ship", "ships.example.com/ship:ns/a", id="its version"),
        pytest.param("ships.example.com/v2", "Ship", "ships.example.com/ship:ns/a", id="another version"),
        pytest.param("boats.example.com/v1", "Ship", None, id="another group"),
        pytest.param("ships.example.com/v1", "Boat", None, id="another kind"),
        pytest.param("v1", "Pod", "pod:ns/a", id="core"),
    ],
)
def test_the_owner_is_known_in_every_version(api_version: str, kind: str, key: str | None) -> None:
    owner = {"apiVersion": api_version, "kind": kind, "name": "a", "uid": "u", "controller": True}
    assert owner_key(workload(metadata={"ownerReferences": [owner]}), KINDS) == key


MANY = 100


class Listed(Store[Workload]):
    """An informer's copy that is listed."""

    has_synced = True

    async def synced(self, timeout: float) -> None:  # noqa: ASYNC109 - as Informer's
        return


async def test_workloads_of_a_kind_declared_later_are_filed_while_others_have_their_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "TURN", -1.0)
    known = {("", "Pod"): "pod"}

    def owners(of: Workload) -> Iterable[str]:
        key = owner_key(of, known)
        return (key,) if key else ()

    seen = Listed("workloads")
    seen.add_index(BY_JOB, owners)
    for number in range(MANY):
        kind, group = ("Ship", "ships.example.com/v1") if number % 2 else ("Pod", "v1")
        owner = {"apiVersion": group, "kind": kind, "name": f"o{number}", "uid": "u", "controller": True}
        seen.upsert(workload(f"w{number}", metadata={"ownerReferences": [owner], "uid": f"{number}"}))
    known |= KINDS
    filing, others = asyncio.create_task(file_owned(seen, BY_JOB, known, "ships.example.com/ship")), 0
    while not filing.done():
        await asyncio.sleep(0)
        others += 1
    assert others >= MANY
    assert await filing == [f"ships.example.com/ship:ns/o{n}" for n in range(1, MANY, 2)]
    assert [w.metadata.name for w in seen.by_index(BY_JOB, "ships.example.com/ship:ns/o7")] == ["w7"]
    assert [w.metadata.name for w in seen.by_index(BY_JOB, "pod:ns/o8")] == ["w8"]
