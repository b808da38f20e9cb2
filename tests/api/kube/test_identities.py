"""Whose a token is, as the API server tells it (TokenReview), and how little made-up tokens cost it."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from api.errors import Unreachable
from api.kube.client import Kube
from api.process.identities import OF_ALL, OF_ONE, SECONDS_OF_ALL, SECONDS_OF_ONE, Identities, Subject, TooManyTokens

pytestmark = pytest.mark.asyncio
KEPT = 30.0


@dataclass
class Reviewing:
    """Stands in for a Kube whose API server accepts the tokens that begin with `good`. Counts its reviews by token."""

    reviews: Counter[str] = field(default_factory=Counter)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    down: bool = False
    now: float = 0.0

    def __post_init__(self) -> None:
        self.answers.set()

    async def asked(self, times: int) -> None:
        """Waits for so many reviews that have begun."""
        for _ in range(times):
            await self.begun.acquire()

    def identities(self) -> Identities:
        return Identities(cast("Kube", self), KEPT, lambda: self.now)

    def tuned(self, **_: Any) -> Reviewing:
        return self

    async def create(self, _: Any, review: dict[str, Any]) -> dict[str, Any]:
        token = review["spec"]["token"]
        self.reviews[token] += 1
        self.begun.release()
        await self.answers.wait()
        if self.down:
            raise Unreachable(0, "Unreachable", "no answer")
        return {"status": {"authenticated": token.startswith("good"), "user": {"username": token}}}


async def sent(identities: Identities, tokens: int, source: str, name: str = "made-up") -> int:
    """Sends so many made-up tokens; returns how many were reviewed."""
    reviewed = 0
    for number in range(tokens):
        try:
            assert await identities.of(f"{name}-{source}-{number}", source) is None
        except TooManyTokens:
            continue
        reviewed += 1
    return reviewed


async def test_made_up_tokens_cost_a_client_address_its_budget_and_nobody_else() -> None:
    kube = Reviewing()
    identities = kube.identities()
    assert await identities.of("good", "10.0.0.1") == Subject("good")
    assert await sent(identities, 3000, "10.0.0.1") == OF_ONE
    assert await identities.of("good", "10.0.0.1") == Subject("good"), "a token that is known is answered"
    assert await identities.of("good-other", "10.0.0.2") == Subject("good-other"), "and so is any from elsewhere"
    with pytest.raises(TooManyTokens):
        await identities.of("good-late", "10.0.0.1")
    kube.now += SECONDS_OF_ONE
    assert await identities.of("good-late", "10.0.0.1") == Subject("good-late")


async def test_a_refusal_is_remembered() -> None:
    kube = Reviewing()
    identities = kube.identities()
    for _ in range(5):
        assert await identities.of("made-up") is None
    assert kube.reviews["made-up"] == 1
    kube.now += KEPT + 1
    assert await identities.of("made-up") is None
    assert kube.reviews["made-up"] == 2


async def test_many_addresses_together_have_a_budget() -> None:
    kube = Reviewing()
    identities = kube.identities()
    reviewed = sum([await sent(identities, 3, f"10.0.{number}.1") for number in range(100)])
    assert reviewed == OF_ALL
    kube.now += 10 * SECONDS_OF_ALL
    reviewed = sum([await sent(identities, 3, f"10.1.{number}.1") for number in range(100)])
    assert reviewed == 10


async def test_addresses_of_one_ipv6_network_are_one_client() -> None:
    identities = Reviewing().identities()
    assert sum([await sent(identities, 1, f"2001:db8::{number:x}%eth0") for number in range(100)]) == OF_ONE


async def test_tokens_that_are_accepted_cost_no_budget() -> None:
    identities = Reviewing().identities()
    for number in range(10 * OF_ALL):
        assert await identities.of(f"good-{number}", "10.0.0.1") == Subject(f"good-{number}")


async def test_a_token_that_was_accepted_is_asked_about_again_without_a_budget() -> None:
    kube = Reviewing()
    identities = kube.identities()
    await identities.of("good", "10.0.0.1")
    kube.now += KEPT + 1
    await sent(identities, 100, "10.0.0.1")
    assert await identities.of("good", "10.0.0.1") == Subject("good")
    assert kube.reviews["good"] == 2


async def test_requests_with_one_token_ask_once_and_one_that_leaves_ends_none() -> None:
    kube = Reviewing()
    kube.answers.clear()
    identities = kube.identities()
    waiting = [asyncio.create_task(identities.of("good", f"10.0.0.{number}")) for number in range(20)]
    await kube.asked(1)
    waiting[0].cancel()
    kube.answers.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    assert await asyncio.gather(*waiting[1:]) == [Subject("good")] * 19
    assert kube.reviews["good"] == 1


async def test_made_up_tokens_at_once_do_not_queue_up() -> None:
    kube = Reviewing()
    kube.answers.clear()
    identities = kube.identities()
    waiting = [asyncio.create_task(identities.of(f"made-up-{number}", "10.0.0.1")) for number in range(500)]
    await kube.asked(OF_ONE)
    kube.answers.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert sum(isinstance(one, TooManyTokens) for one in outcomes) == 500 - OF_ONE
    assert kube.reviews.total() == OF_ONE


async def test_an_api_server_that_does_not_answer_costs_no_budget() -> None:
    kube = Reviewing(down=True)
    identities = kube.identities()
    for number in range(3 * OF_ONE):
        with pytest.raises(Unreachable):
            await identities.of(f"good-{number}", "10.0.0.1")
    kube.down = False
    assert await identities.of("good", "10.0.0.1") == Subject("good")
