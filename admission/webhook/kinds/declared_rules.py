"""Keeps the webhook rules for declared kinds up to date, so that the API server sends their objects for review.

`config/webhook` has webhooks without rules for declared kinds, which the API server never calls. This process writes a rule
for each kind that a JobKind declares when the kinds change, and periodically, in case a user applies the configurations again.
All replicas write the same rules.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from typing import Any, Final

from admission.integrations.registry import KINDS
from admission.integrations.sets.sets import SCALED
from api.errors import NotFound, StowageError
from api.kube.client import Kube, PatchKind
from api.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource

log = logging.getLogger(__name__)

PERIOD: Final = 30.0
_PAUSE: Final = 1.0
OPERATIONS: Final = {
    "mdeclared.stowage.dev": ["CREATE", "UPDATE"],
    "mdeclared-default-queue.stowage.dev": ["CREATE"],
    "vdeclared.stowage.dev": ["CREATE", "UPDATE"],
    "vdeclared-part.stowage.dev": ["UPDATE"],
}
"""Operations for each webhook in config/webhook that has no rules, by the webhook's name."""


class DeclaredRules:
    """Writes the rules. `mutating` and `validating` name the configurations; empty for none."""

    def __init__(self, kube: Kube, mutating: str, validating: str) -> None:
        self._kube = kube
        self._configurations = [
            (resource, name)
            for resource, name in ((MUTATING_WEBHOOKS, mutating), (VALIDATING_WEBHOOKS, validating))
            if name
        ]
        self.changed = asyncio.Event()

    async def run(self) -> None:
        """Writes the rules after each change, and every `PERIOD` seconds, until cancelled."""
        while True:
            self.changed.clear()
            pause = PERIOD
            try:
                await self.once()
            except StowageError as error:
                log.warning("rules of declared kinds not written", extra={"why": str(error)})
                pause = _PAUSE
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.changed.wait()

    async def once(self) -> None:
        """Writes missing rules. Raises ApiError."""
        for resource, name in self._configurations:
            await self._write(resource, name)

    async def _write(self, resource: Resource, name: str) -> None:
        try:
            configuration = await self._kube.get(resource, name)
        except NotFound:
            return
        hooks = configuration.get("webhooks") or []
        wanted = [_with_rules(hook) for hook in hooks]
        if wanted == hooks:
            return
        body = {"metadata": {"resourceVersion": configuration["metadata"]["resourceVersion"]}, "webhooks": wanted}
        await self._kube.patch(resource, name, body, kind=PatchKind.MERGE)
        log.info("webhook configurations cover the declared kinds", extra={"configuration": name})


def _with_rules(hook: dict[str, Any]) -> dict[str, Any]:
    """Returns the webhook configuration entry, with rules if it is one for declared kinds."""
    operations = OPERATIONS.get(hook.get("name", ""))
    if operations is None:
        return hook
    rules = [_rule(adapter.resource, operations) for adapter in KINDS.declared()]
    # The template of a set is marked again when it changes. Conditions of a webhook for updates read the former object.
    of_sets = ["UPDATE"] if operations == ["UPDATE"] else ["CREATE", "UPDATE"]
    rules += [_rule(adapter.resource, of_sets) for adapter in SCALED.declared()]
    if _with_api_defaults(rules) == _with_api_defaults(hook.get("rules") or ()):
        return hook
    return {**hook, "rules": rules}


def _rule(resource: Resource, operations: list[str]) -> dict[str, Any]:
    return {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "operations": operations,
        "resources": [resource.plural],
        "scope": "*",
    }


def _with_api_defaults(rules: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rules with the defaults of the API server."""
    return [{"scope": "*", **rule} for rule in rules]
