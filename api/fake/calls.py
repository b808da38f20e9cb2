"""Requests as the real server carries them out: the writes of change.py with admission webhooks in between.

The asynchronous sibling of `Store`'s write methods. Called by http.py, and by workers whose objects must pass our own
webhooks (the JobSet stand-in creates Jobs through it).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from api.fake import change
from api.fake.binding import bind
from api.fake.deletion import DeleteOptions
from api.fake.request import Options, Review, Target
from api.fake.status import Obj
from api.fake.store import Store
from api.fake.table import Record

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class User:
    """Who asks, as webhooks see it."""

    name: str = "system:admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")

    def body(self) -> Obj:
        return {"username": self.name, "uid": "", "groups": list(self.groups)}


@dataclass(slots=True)
class Context:
    """One request's user, and the warnings that webhooks leave for it."""

    user: User = field(default_factory=User)
    warnings: list[str] = field(default_factory=list)


class Admission(Protocol):
    async def review(self, review: Review, context: Context) -> Obj | None:
        """The object as webhooks leave it. Raises Refusal when one denies."""
        ...


class Calls:
    def __init__(self, store: Store, admission: Admission) -> None:
        self.store = store
        self._admission = admission

    async def create(self, target: Target, body: Obj, options: Options, context: Context) -> Record:
        return await self._run(change.create(self.store, target, body, options), context)

    async def update(self, target: Target, body: Obj, options: Options, context: Context) -> Record:
        return await self._run(change.update(self.store, target, body, options), context)

    async def patch(self, target: Target, body: Any, content: str, options: Options, context: Context) -> Record:
        return await self._run(change.patch(self.store, target, body, content, options), context)

    async def delete(self, target: Target, options: DeleteOptions, context: Context) -> tuple[Record, bool]:
        return await self._run(change.delete(self.store, target, options), context)

    async def bind(self, target: Target, body: Obj, options: Options) -> Record:
        return bind(self.store, target, body, options)

    async def _run(self, steps: Generator[Review, Obj, T], context: Context) -> T:
        try:
            review = next(steps)
            while True:
                review = steps.send(await self._admission.review(review, context) or {})
        except StopIteration as done:
            result: T = done.value
            return result
