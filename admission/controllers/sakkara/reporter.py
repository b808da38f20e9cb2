"""Reports errors in Sakkara's ConfigMaps (invalid trees and groups) as Warning events on them.

A while after the change, for a tree may be there before its nodes. Only the leader runs it; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from admission.controllers.cluster_view import Views
from admission.controllers.pods.sakkara_groups import SYNC_TIMEOUT
from admission.controllers.workload_writer import Recorder
from api.kube.events import ref_to
from api.kube.reconcile import Reconciler
from api.kube.resources import CONFIG_MAPS
from api.sakkara import ConfigMap

TREE_REASON: Final = "InvalidTopology"
GROUP_REASON: Final = "InvalidGroup"
_TREE, _GROUP = "tree/", "group/"
_GRACE: Final = 1.0


class CheckedConfigMaps(Protocol):
    """ConfigMaps with what is wrong with each: `trees.Trees`, `groups.SakkaraGroups`."""

    def object(self, key: str) -> ConfigMap | None:
        """The ConfigMap."""

    def problem(self, key: str) -> str | None:
        """What is wrong with it."""

    def add_listener(self, fn: Callable[[str], None]) -> None:
        """`fn` gets the key of each ConfigMap whose report may have changed."""


class Reporter:
    """See the module."""

    def __init__(self, views: Views, groups: CheckedConfigMaps, recorder: Recorder) -> None:
        self._views, self._recorder = views, recorder
        self._judged: dict[str, tuple[CheckedConfigMaps, str]] = {
            _TREE: (views.trees, TREE_REASON),
            _GROUP: (groups, GROUP_REASON),
        }
        self._told: dict[str, str | None] = {}
        self.queue = Reconciler("Sakkara's ConfigMaps", self.reconcile, workers=1)
        for prefix, (judged, _) in self._judged.items():
            judged.add_listener(self._adder(prefix))

    def _adder(self, prefix: str) -> Callable[[str], None]:
        return lambda key: self.queue.add_after(f"{prefix}{key}", _GRACE)

    async def run(self) -> None:
        """Until cancelled. The informers run elsewhere."""
        await self._views.synced(SYNC_TIMEOUT)
        await self.queue.run()

    async def reconcile(self, key: str) -> float | None:
        """Says it once, until it is something else."""
        prefix, _, name = key.partition("/")
        judged, reason = self._judged[f"{prefix}/"]
        found, problem = judged.object(name), judged.problem(name)
        if problem != self._told.get(key) and problem is not None and found is not None:
            self._recorder.record(ref_to(CONFIG_MAPS, found), "Warning", reason, problem)
        if found is None:
            self._told.pop(key, None)
        else:
            self._told[key] = problem
        return None
