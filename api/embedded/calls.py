"""Requests as the real server handles them: the writes of change.py with admission webhooks in between.

The asynchronous counterpart of `ObjectStorage`'s write methods. Called by http.py, and by workers whose objects must pass
webhooks (the JobSet stand-in creates Jobs through it).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from api.embedded.request import RequestTarget, Review, WriteOptions
from api.embedded.status import Obj
from api.embedded.store import ObjectStorage
from api.embedded.table import StoredObject
from api.embedded.writes import change
from api.embedded.writes.binding import bind
from api.embedded.writes.deletion import DeleteOptions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UserInfo:
    """The user of a request, as webhooks see it."""

    name: str = "system:admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")

    def body(self) -> Obj:
        return {"username": self.name, "uid": "", "groups": list(self.groups)}


@dataclass(slots=True)
class Context:
    """One request's user, and the warnings of webhooks."""

    user: UserInfo = field(default_factory=UserInfo)
    warnings: list[str] = field(default_factory=list)


class AdmissionReviewer(Protocol):
    async def review(self, review: Review, context: Context) -> Obj | None:
        """Returns the object after the webhooks. Raises StatusError if one denies it."""
        ...


class Calls:
    def __init__(self, store: ObjectStorage, admission: AdmissionReviewer) -> None:
        self.store = store
        self._admission = admission

    async def create(self, target: RequestTarget, body: Obj, options: WriteOptions, context: Context) -> StoredObject:
        return await self._run(change.create(self.store, target, body, options), context)

    async def update(self, target: RequestTarget, body: Obj, options: WriteOptions, context: Context) -> StoredObject:
        return await self._run(change.update(self.store, target, body, options), context)

    async def patch(
        self, target: RequestTarget, body: Any, content: str, options: WriteOptions, context: Context
    ) -> StoredObject:
        return await self._run(change.patch(self.store, target, body, content, options), context)

    async def delete(
        self, target: RequestTarget, options: DeleteOptions, context: Context
    ) -> tuple[StoredObject, bool]:
        return await self._run(change.delete(self.store, target, options), context)

    async def bind(self, target: RequestTarget, body: Obj, options: WriteOptions) -> StoredObject:
        return bind(self.store, target, body, options)

    async def _run(self, steps: Generator[Review, Obj, T], context: Context) -> T:
        try:
            review = next(steps)
            while True:
                review = steps.send(await self._admission.review(review, context) or {})
        except StopIteration as done:
            result: T = done.value
            return result
