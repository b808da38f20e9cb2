"""No user takes what all others need: streams, questions, and questions to the API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from admission.dashboard import viewer
from admission.dashboard.questions import MOST_OF_ONE, TooBusy
from admission.dashboard.serve.encoding import TooLong, encoded
from admission.dashboard.serve.routes import EVENTS
from admission.dashboard.stream import MOST_OF_ONE as MOST_STREAMS
from admission.dashboard.viewer import Permissions, share_of
from api.kube.resources import NAMESPACES
from tests.admission.dashboard.small_cluster import served
from tests.admission.dashboard.test_stream import stream


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("jane", "jane"),
        ("system:serviceaccount:team:a", "system:serviceaccount:team"),
        ("system:serviceaccount:team-b:a", "system:serviceaccount:team-b"),
        ("oidc:system:serviceaccount:team:a", "oidc:system:serviceaccount:team:a"),
    ],
)
def test_the_accounts_of_a_namespace_have_one_share(name: str, share: str) -> None:
    assert share_of(name) == share


async def test_a_tenant_with_many_accounts_has_the_streams_of_one_user() -> None:
    async with served() as found, asyncio.timeout(30), contextlib.AsyncExitStack() as stack:
        for number in range(MOST_STREAMS):
            await stack.enter_async_context(stream(found, f"account-{'ab'[number % 2]}"))
        for token in ("account-a", "account-b"):
            status, body = await found.ask(EVENTS, token)
            assert status == 429
            assert f"system:serviceaccount:team follows the changes {MOST_STREAMS} times" in json.loads(body)["message"]
        await stack.enter_async_context(stream(found, "account-of-others"))


async def test_one_user_cannot_take_the_questions_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as found, asyncio.timeout(60), asyncio.TaskGroup() as group:
        questions = found.dashboard.questions
        turn = asyncio.Semaphore(0)
        monkeypatch.setattr(questions, "_turn", turn)
        waiting = [group.create_task(questions.read("", "one")) for _ in range(MOST_OF_ONE)]
        await asyncio.sleep(0)
        with pytest.raises(TooBusy, match=f"{MOST_OF_ONE} of your questions"):
            await questions.read("", "one")
        with pytest.raises(TooBusy, match=f"{MOST_OF_ONE} of your questions"):
            await questions.explanation("team/later", "one")
        waiting += [
            group.create_task(questions.read("", share)) for share in ("two", "three") for _ in range(MOST_OF_ONE)
        ]
        await asyncio.sleep(0)
        with pytest.raises(TooBusy, match="of all users"):
            await questions.read("", "four")
        turn.release()
        await asyncio.gather(*waiting)
        assert await questions.read("", "one") == []


@pytest.mark.parametrize("rows", [0, 1, 199, 200, 201, 400, 1001])
@pytest.mark.parametrize("rest", [{}, {"total": 3, "next": None}])
async def test_an_answer_of_many_rows_is_the_same_json(rows: int, rest: dict[str, Any]) -> None:
    answer = {**rest, "items": [{"name": f'row "{number}"'} for number in range(rows)]}
    found = await encoded(answer)
    assert json.loads(found) == answer
    assert await encoded(answer, len(found)) == found
    with pytest.raises(TooLong):
        await encoded(answer, len(found) - 1)


class Counted:
    """A viewer whose permissions take a while; counts how often they are asked for, and with how many others."""

    now: ClassVar[int] = 0

    def __init__(self, name: str = "counted") -> None:
        self.name, self.asked, self.at_once = name, 0, 0

    async def permissions(self, namespaces: Sequence[str]) -> Permissions:
        self.asked += 1
        Counted.now += 1
        await asyncio.sleep(0.01)
        self.at_once = Counted.now
        Counted.now -= 1
        return Permissions()


async def test_requests_at_once_ask_for_the_rights_of_their_user_once() -> None:
    async with served() as found:
        one, other = Counted(), Counted()
        await asyncio.gather(*(found.dashboard.permissions(each) for each in [one, other] * 20))
        assert (one.asked, other.asked) == (1, 1)


async def test_the_rights_of_one_share_are_asked_for_one_after_the_other() -> None:
    """A tenant can make accounts and tokens without end, and each costs a review for each namespace: others wait for none."""
    async with served() as found:
        accounts = [Counted(f"system:serviceaccount:team:{name}") for name in "abcabc"]
        await asyncio.gather(*map(found.dashboard.permissions, accounts))
        assert [(each.asked, each.at_once) for each in accounts] == [(1, 1)] * 6
        users = [Counted(name) for name in "ab"]
        await asyncio.gather(*map(found.dashboard.permissions, users))
        assert max(each.at_once for each in users) == 2, "those of two are asked for at once"


async def test_of_too_many_namespaces_those_with_queues_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer, "MOST_NAMESPACES", 2)
    async with served() as found:
        for number in range(5):
            found.cluster.add(NAMESPACES, {"metadata": {"name": f"a-{number}", "labels": {}}})
        rows = (await found.get("workloads", "tenant"))["items"]
        assert {row["namespace"] for row in rows} == {"team"}


async def test_what_others_have_does_not_fill_the_answer_of_a_search() -> None:
    async with served() as found:
        for number in range(60):
            found.cluster.wait("hidden-ns", "hidden-lq", f"a-late-{number:02}", 1)
            found.cluster.wait("team", "lq", f"late-{number:02}", 1)
        names = [each["name"] for each in (await found.get("search?q=Late", "tenant"))["items"]]
        assert names == [f"late-{number:02}" for number in range(50)]
        assert len((await found.get("search?q=late-00", "admin"))["items"]) == 2
