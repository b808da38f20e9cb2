"""Which modules share a stage: a server and three processes take seconds to start, and the settings are seldom different.

A module that says `SHARES_STAGE = True` runs on the stage of all that say so and have the same ENVIRONMENT. Its sites bear
names that no other of these modules has; it leaves the processes running and asks nothing about the cluster as a whole.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Self

import pytest

from hack.controlplane.options import ClusterOptions
from tests.dealing import group_of_stage
from tests.scenarios.stage import Stage

Opens = Callable[[], contextlib.AbstractAsyncContextManager[Stage]]


@dataclass(frozen=True)
class StageKey:
    """Modules with the same key run on the same stage; `module` is empty for those that share.

    `control_plane` is None on the embedded server.
    """

    server: str
    settings: tuple[tuple[str, str], ...]
    module: str
    control_plane: ClusterOptions | None = None

    @classmethod
    def of_module(cls, module: ModuleType, server: str) -> Self:
        """A real cluster that is shared runs the JobSet controller, so that modules with and without JobSets share it."""
        shares = getattr(module, "SHARES_STAGE", False)
        settings = tuple(sorted(getattr(module, "ENVIRONMENT", {}).items()))
        found = cls(server, settings, "" if shares else module.__name__)
        if server == "embedded":
            return found
        chosen = getattr(module, "CONTROL_PLANE", ClusterOptions())
        return replace(found, control_plane=replace(chosen, jobset=shares or chosen.jobset))

    @classmethod
    def of_test(cls, item: pytest.Item | None) -> Self | None:
        """None for a test without the fixture `stage`."""
        server = getattr(getattr(item, "callspec", None), "params", {}).get("stage")
        return cls.of_module(item.module, server) if isinstance(item, pytest.Function) and server else None

    @property
    def name(self) -> str:
        """For logs: the module, or what those that share have in common."""
        return self.module or f"stage-{zlib.crc32(repr(self).encode()):08x}"

    def group(self, module: str) -> str:
        """The group of a module that shares this stage. Each may go to a worker of its own (tests/dealing.py)."""
        return group_of_stage(self.name, module)


@dataclass
class OpenStage:
    """The stage that is open now, if any; one at a time."""

    key: StageKey | None = None
    owners: dict[str, str] = field(default_factory=dict)
    _stage: Stage | None = None
    _exits: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def enter(self, key: StageKey, opens: Opens) -> Stage:
        """The stage that is open, if it is of that key, else a new one."""
        if self._stage is None or key != self.key:
            await self.close()
            self._stage = await self._exits.enter_async_context(opens())
            self.key = key
        return self._stage

    async def close(self) -> None:
        """Ends its processes and its server."""
        exits, self._exits = self._exits, contextlib.AsyncExitStack()
        self._stage, self.key, self.owners = None, None, {}
        await exits.aclose()

    def claim(self, site: str, module: str) -> None:
        """Raises ValueError when another module of this stage has a site of that name."""
        owner = self.owners.setdefault(site, module)
        if owner != module:
            raise ValueError(
                f"site {site}: {owner} runs on the same stage and has one of that name; choose another name"
            )
