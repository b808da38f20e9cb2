"""What a Sakkara group is told: status, placement, ranks and times in its ConfigMap, labels on its pods; also after crashes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from api.errors import NotFound
from api.kube.resources import CONFIG_MAPS, NODES, POD_GROUPS, PODS
from api.meta import parse_time
from api.names import (
    GANG_LABEL,
    SAKKARA_GROUP,
    SAKKARA_GROUP_NAME,
    SAKKARA_RANK,
    SAKKARA_RETRIES,
    SAKKARA_STATUS,
)
from tests.scenarios.failures import SHORT_LEASE, down
from tests.scenarios.gangs import a_pod, create, end, story
from tests.scenarios.site import BLOCK, RACK, Site, eventually, never
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = SHORT_LEASE

MakeSite = Callable[[str], Site]
GIVEN = ("name", "size", "priority", "constraints")


async def describe(here: Site, group: str, size: int, **data: str) -> dict[str, str]:
    """Makes the group's ConfigMap; its data."""
    given = {"name": group, "size": str(size), **data}
    await here.make(
        CONFIG_MAPS, {"metadata": {"name": group, "namespace": here.name, "labels": {SAKKARA_GROUP: ""}}, "data": given}
    )
    return given


def member(here: Site, group: str, name: str, gpus: int = 2) -> Any:
    return a_pod(here, name, {SAKKARA_GROUP_NAME: group}, gpus=gpus, queue="lq")


async def data_of(here: Site, group: str) -> dict[str, str]:
    found = await here.kube.get(CONFIG_MAPS, group, here.name)
    return dict(found["data"])


async def said(here: Site, group: str, status: str, text: str = "", seconds: float = 60.0) -> dict[str, str]:
    """Waits until the group's ConfigMap has that status, and that text in its message; its data."""
    last: dict[str, str] = {}

    async def check() -> dict[str, str] | None:
        last.clear()
        last.update(await data_of(here, group))
        return dict(last) if last.get("status") == status and text in last.get("message", "") else None

    try:
        return await eventually(f"{group} is {status} {text}", check, seconds)
    except AssertionError as late:
        raise AssertionError(f"{late}; {last}; {await story(here)}") from None


async def pods_of(here: Site, group: str) -> dict[str, dict[str, Any]]:
    """Pods of the group that have not failed and are not going, by name."""
    page = await here.kube.list(PODS, here.name, label_selector=f"{SAKKARA_GROUP_NAME}={group}")
    return {
        pod["metadata"]["name"]: pod
        for pod in page.items
        if pod["status"].get("phase") != "Failed" and not pod["metadata"].get("deletionTimestamp")
    }


async def paths(here: Site) -> dict[str, tuple[str, str, str]]:
    """Block, rack and name of each node, by name."""
    page = await here.kube.list(NODES)
    found = {}
    for node in page.items:
        labels = node["metadata"].get("labels", {})
        if RACK in labels:
            found[node["metadata"]["name"]] = (labels[BLOCK], labels[RACK], node["metadata"]["name"])
    return found


def leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each pod of a placement with its path."""
    if isinstance(tree, list):
        yield from ((pod, path) for pod in tree)
    else:
        for name, below in tree.items():
            yield from leaves(below, (*path, name))


def placement(data: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found = list(leaves(json.loads(data["placement"])["root"]))
    assert len(found) == len(dict(found)), f"a pod stands there twice: {data['placement']}"
    return dict(found)


def ranks(data: Mapping[str, str]) -> dict[str, int]:
    found = [(pod, rank) for pod, rank in json.loads(data["rank"])]
    assert sorted(rank for _, rank in found) == list(range(len(found))), data["rank"]
    assert len(dict(found)) == len(found), data["rank"]
    return dict(found)


def distance(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    shared = next((i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b), len(first))
    return 2 * (len(first) - shared)


async def right(
    here: Site, group: str, value: Mapping[str, str], *, ordered: bool = True, timed: bool = True
) -> dict[str, str]:
    """Waits until the group is Bound and all that is said of it is true: in its ConfigMap, and on its pods.

    `ordered`: no member was replaced. `timed`: nothing was lost, so that the time of the decision is known, too.
    """
    known, last = await paths(here), ""

    async def check() -> tuple[dict[str, str], dict[str, tuple[str, str, str]]] | None:
        nonlocal last
        data, pods = await data_of(here, group), await pods_of(here, group)
        nodes = {name: pod["spec"].get("nodeName", "") for name, pod in pods.items()}
        last = f"{data}; pods: {nodes}"
        if data.get("status") != "Bound" or not all(nodes.values()) or placement(data).keys() != nodes.keys():
            return None
        return data, {name: known[node] for name, node in nodes.items()}

    try:
        data, where = await eventually(f"all of {group} are bound and named", check)
    except AssertionError as late:
        raise AssertionError(f"{late}; {last}; {await story(here)}") from None
    assert {key: data.get(key) for key in value} == dict(value), "what the user gave was touched"
    assert placement(data) == where
    rank = ranks(data)
    assert rank.keys() == where.keys()
    order = sorted(rank, key=rank.__getitem__)
    if ordered:
        master = next((name for name in sorted(rank) if "master" in name), min(rank))
        assert order == sorted(rank, key=lambda n: (n != master, distance(where[n], where[master]), where[n], n))
    begin, finish = parse_time(data["schedBeginTime"]) or 0.0, parse_time(data["schedEndTime"]) or 0.0
    assert 0 <= finish - begin < 600
    assert int(data["schedTotalTimeMilli"]) == round((finish - begin) * 1000)
    assert 0 <= int(data["schedSolverTimeMilli"] if timed else data.get("schedSolverTimeMilli", 0)) < 600_000
    await labelled(here, group, rank)
    return data


async def labelled(here: Site, group: str, rank: Mapping[str, int]) -> None:
    """Waits until each pod bears its rank and that it is bound."""

    async def check() -> bool:
        labels = {name: pod["metadata"]["labels"] for name, pod in (await pods_of(here, group)).items()}
        return {name: (of.get(SAKKARA_RANK), of.get(SAKKARA_STATUS)) for name, of in labels.items()} == {
            name: (str(number), "Bound") for name, number in rank.items()
        }

    await eventually(f"pods of {group} bear their ranks", check)


async def retries(here: Site, group: str) -> dict[str, str | None]:
    return {name: pod["metadata"]["labels"].get(SAKKARA_RETRIES) for name, pod in (await pods_of(here, group)).items()}


# ---- the stories


async def test_a_group_reads_in_its_config_map_where_each_pod_is_and_which_rank_it_has(site: MakeSite) -> None:
    here = site("told")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    given = await describe(here, "g", 6, priority="0", constraints='{"topology-rack": {"type": "pack"}}')
    await said(here, "g", "Pending", "0 of 6 pods exist")
    await create(here, *(member(here, "g", f"w-{i}") for i in range(5)))
    data = await said(here, "g", "Pending", "5 of 6 pods exist")
    assert not data.keys() & {"placement", "rank", "schedEndTime"}
    await create(here, member(here, "g", "z-master"))
    data = await right(here, "g", given)
    assert ranks(data)["z-master"] == 0
    assert set((await retries(here, "g")).values()) == {"0"}

    await end(here, await pods_of(here, "g"))
    data = await said(here, "g", "Bound", "succeeded: 6/6")
    assert ranks(data)["z-master"] == 0


async def test_pods_that_name_their_group_as_a_pod_group_are_reported_as_well(site: MakeSite) -> None:
    here = site("renamed")
    await here.open({"b1": {"r1": 2}})
    given = await describe(here, "g", 3)
    await here.make(POD_GROUPS, {"metadata": {"name": "g", "namespace": here.name}, "spec": {"minMember": 2}})
    await create(here, *(a_pod(here, f"w-{i}", {GANG_LABEL: "g"}, queue="lq") for i in range(2)))
    await said(here, "g", "Pending", "2 of 3 pods exist")
    await create(here, a_pod(here, "w-2", {GANG_LABEL: "g"}, queue="lq"))
    await right(here, "g", given)


async def test_an_evicted_group_names_its_preemptor_and_returns_as_another_attempt(site: MakeSite) -> None:
    here = site("left")
    await here.open({"b1": {"r1": 1}}, preemption={"withinClusterQueue": "LowerPriority"})
    given = await describe(here, "low", 2, priority="-5")
    await create(here, member(here, "low", "low-0"), member(here, "low", "low-1"))
    first = await right(here, "low", given)
    high = await describe(here, "high", 2, priority="5")
    await create(here, member(here, "high", "high-0"), member(here, "high", "high-1"))
    data = await said(here, "low", "Preempted", "Preempted to accommodate")
    assert not data.keys() & {"placement", "rank", "schedEndTime", "schedTotalTimeMilli"}
    await right(here, "high", high)

    await create(here, member(here, "low", "low-2"), member(here, "low", "low-3"))
    await never("nobody comes back before there is room", lambda: is_bound(here, "low"))
    await said(here, "low", "Preempted")
    await end(here, await pods_of(here, "high"))
    data = await right(here, "low", given)
    assert set((await retries(here, "low")).values()) == {"1"}
    assert data["schedBeginTime"] == first["schedBeginTime"]
    assert int(data["schedTotalTimeMilli"]) > int(first["schedTotalTimeMilli"])


async def is_bound(here: Site, group: str) -> bool:
    return (await data_of(here, group)).get("status") == "Bound"


async def test_a_member_that_fails_and_comes_back_under_another_name_takes_its_place_and_rank(site: MakeSite) -> None:
    here = site("heir")
    await here.open({"b1": {"r1": 2}})
    given = await describe(here, "g", 4)
    await create(here, *(member(here, "g", f"w-{i}") for i in range(4)))
    before = await right(here, "g", given)
    where, rank = placement(before), ranks(before)
    lost = max(rank, key=rank.__getitem__)
    await end(here, [lost], "Failed")
    await said(here, "g", "Failed", f"1 of 4 pods are missing; failed: {lost}")
    await create(here, member(here, "g", "a-new"))
    after = await right(here, "g", given, ordered=False)
    assert ranks(after) == {name if name != lost else "a-new": number for name, number in rank.items()}
    assert placement(after)["a-new"] == where[lost]
    assert await retries(here, "g") == {name: "1" if name == "a-new" else "0" for name in ranks(after)}
    assert after["schedTotalTimeMilli"] == before["schedTotalTimeMilli"]


async def test_a_group_whose_pods_all_fail_has_failed(site: MakeSite) -> None:
    here = site("dead")
    await here.open({"b1": {"r1": 1}})
    given = await describe(here, "g", 2)
    await create(here, member(here, "g", "w-0"), member(here, "g", "w-1"))
    before = await right(here, "g", given)
    await end(here, ["w-0", "w-1"], "Failed")
    data = await said(here, "g", "Failed")
    assert "2" in data["message"]
    assert (data["placement"], data["rank"]) == (before["placement"], before["rank"])


# ---- crashes


@pytest.mark.parametrize("moment", ["Pending", "Assigned", pytest.param("Bound", marks=pytest.mark.long)])
async def test_killed_at_any_moment_no_place_is_lost_or_given_twice(site: MakeSite, stage: Stage, moment: str) -> None:
    here = site(f"killed-{moment.lower()}")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    given = await describe(here, "g", 8)
    await create(here, *(member(here, "g", f"w-{i}") for i in range(8)))

    async def reached() -> bool:
        data = await data_of(here, "g")
        return moment in ("Pending", data.get("status")) or data.get("status") == "Bound"

    await eventually(f"the group is {moment}", reached)
    async with down(stage, "controller"):
        before = await data_of(here, "g")
    after = await right(here, "g", given, timed=False)
    for key in ("rank", "schedBeginTime", "schedEndTime"):
        assert before.get(key) in (None, after[key]), key
    assert set((await retries(here, "g")).values()) == {"0"}


async def test_members_replaced_during_an_outage_leave_their_ranks_to_their_successors(
    site: MakeSite, stage: Stage
) -> None:
    here = site("unseen")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    given = await describe(here, "g", 8)
    await create(here, *(member(here, "g", f"w-{i}") for i in range(8)))
    before = await right(here, "g", given)
    rank = ranks(before)
    async with down(stage, "controller"):
        await end(here, ["w-3", "w-6"], "Failed")
        await create(here, member(here, "g", "x-0"))
    await eventually("the first successor has a rank", lambda: has_rank(here, "g", "x-0"))
    async with down(stage, "controller"):
        await create(here, member(here, "g", "x-1"))
    after = await right(here, "g", given, ordered=False)
    stayed = rank.keys() - {"w-3", "w-6"}
    assert {name: ranks(after)[name] for name in stayed} == {name: rank[name] for name in stayed}
    was, now = placement(before), placement(after)
    assert sorted(now[name] for name in ("x-0", "x-1")) == sorted(was[name] for name in ("w-3", "w-6"))
    by_rank = {number: was[name] for name, number in rank.items()}
    assert {number: now[name] for name, number in ranks(after).items()} == by_rank
    assert sorted(map(str, (await retries(here, "g")).values())) == ["0"] * 6 + ["1"] * 2


async def has_rank(here: Site, group: str, pod: str) -> bool:
    try:
        found = await here.kube.get(PODS, pod, here.name)
    except NotFound:
        return False
    return SAKKARA_RANK in found["metadata"]["labels"]


async def test_removed_results_are_written_again_with_the_same_ranks(site: MakeSite) -> None:
    here = site("spoilt")
    await here.open({"b1": {"r1": 2}})
    given = await describe(here, "g", 4)
    await create(here, *(member(here, "g", f"w-{i}") for i in range(4)))
    before = await right(here, "g", given)
    lost = next(name for name, number in ranks(before).items() if number == 0)
    await end(here, [lost], "Failed")
    await create(here, member(here, "g", "zz"))
    before = await right(here, "g", given, ordered=False)
    gone = {key: None for key in before if key not in GIVEN}
    body = {"data": gone, "metadata": {"annotations": None}}
    await here.change(CONFIG_MAPS, "g", body)
    after = await right(here, "g", given, ordered=False, timed=False)
    assert ranks(after) == ranks(before), "told anew from the pods, not made anew"
    assert (await retries(here, "g"))["zz"] == "1"
