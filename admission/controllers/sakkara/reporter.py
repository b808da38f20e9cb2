"""Reports errors in Sakkara's ConfigMaps (invalid trees and groups) as Warning events on them.

It reports a while after the change, since a tree may be created before its nodes, and runs on the leader only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from admission.controllers.sakkara.groups import SYNC_TIMEOUT
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.sakkara_trees import Trees
from admission.controllers.write.workload_writer import Recorder
from api.kube.events import ref_to
from api.kube.reconcile import Reconciler
from api.kube.resources import CONFIG_MAPS
from api.sakkara import ConfigMap

TREE_REASON: Final = "InvalidTopology"
GROUP_REASON: Final = "InvalidGroup"
_TREE, _GROUP = "tree/", "group/"
_GRACE: Final = 1.0


class CheckedConfigMaps(Protocol):
    """ConfigMaps and their problems: implemented by `Trees` and `SakkaraGroups`."""

    def object(self, key: str) -> ConfigMap | None:
        """Returns the ConfigMap with that key, or None."""

    def problem(self, key: str) -> str | None:
        """Describes what is wrong with the ConfigMap, or returns None."""

    def add_listener(self, fn: Callable[[str], None]) -> None:
        """Calls `fn` with the key of each ConfigMap whose `problem` may have changed."""


class Reporter:
    """Records events about problems of ConfigMaps."""

    def __init__(self, views: Views, groups: CheckedConfigMaps, recorder: Recorder) -> None:
        self._views, self._recorder = views, recorder
        self._checked: dict[str, tuple[CheckedConfigMaps, str]] = {
            prefix: (config_maps, reason)
            for prefix, config_maps, reason in (
                (_TREE, views.features.of(Trees), TREE_REASON),
                (_GROUP, groups, GROUP_REASON),
            )
            if config_maps is not None
        }
        self._reported: dict[str, str | None] = {}
        self.queue = Reconciler("Sakkara's ConfigMaps", self.reconcile, workers=1)
        for prefix, (judged, _) in self._checked.items():
            judged.add_listener(self._adder(prefix))

    def _adder(self, prefix: str) -> Callable[[str], None]:
        return lambda key: self.queue.add_after(f"{prefix}{key}", _GRACE)

    async def run(self) -> None:
        """Runs until cancelled; the informers run elsewhere."""
        await self._views.synced(SYNC_TIMEOUT)
        await self.queue.run()

    async def reconcile(self, key: str) -> float | None:
        """Records a ConfigMap's problem once, until it changes."""
        prefix, _, name = key.partition("/")
        judged, reason = self._checked[f"{prefix}/"]
        config_map, problem = judged.object(name), judged.problem(name)
        if problem != self._reported.get(key) and problem is not None and config_map is not None:
            self._recorder.record(ref_to(CONFIG_MAPS, config_map), "Warning", reason, problem)
        if config_map is None:
            self._reported.pop(key, None)
        else:
            self._reported[key] = problem
        return None
