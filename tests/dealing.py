"""How `make test` deals the tests out to its workers (pytest-xdist).

Tests of stages wait most of their time; the others compute. So one worker begins with those that compute, and the others with
stages, the longest first: the cores are busy from the first second to the last, and no worker is left with a long file.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

HERE = Path(__file__).parent
_FOLDERS = ("scenarios", "attacks", "integration", "e2e")
_MODULES = (
    "admission/cli/test_endings.py",
    "admission/controllers/jobs/test_controller.py",
    "admission/controllers/sakkara/test_output_controller.py",
    "admission/controllers/report/test_explainer.py",
    "admission/controllers/test_features.py",
    "admission/controllers/test_job_kinds.py",
    "admission/controllers/report/test_wait_reasons.py",
    "api/kube/test_process.py",
)
STAGES: Final = tuple(HERE / name for name in (*_FOLDERS, *_MODULES))
"""Suites that start processes, or a controller on a server."""
SHARING: Final = (HERE / "attacks", HERE / "integration")
"""Suites whose modules share what their package starts for a server: one worker runs all tests on that server."""
LONGEST: Final = (
    "test_nothing_retained",
    "test_upgrade",
    "test_alerts",
    "integration-embedded",
    "test_lost_members",
    "test_gangs",
    "test_faults",
    "test_moves_fleet",
    "test_bound_pods",
    "test_leaderworkerset",
    "test_statefulset",
    "test_elastic_quota",
    "test_elastic_jobs",
    "test_crashes",
    "test_sakkara_results",
    "test_drawn_gangs",
    "attacks-embedded",
    "attacks-real",
    "integration-real",
    "test_install",
    "test_capacity_scheduling",
    "test_invalid_input",
    "test_unbound",
    "test_kinds_live",
    "test_elastic_kinds",
    "test_node_failure",
    "test_sakkara",
    "test_fair_sharing",
    "test_past_usage",
    "test_outage",
    "test_lifecycle",
    "test_process",
    "test_config",
    "test_scaled_kinds",
    "test_explain",
    "test_spare_hosts",
    "test_leadership",
    "test_gang_topology",
    "test_gang_crashes",
    "test_preemption_crashes",
    "test_scenarios",
    "test_exclusive_pods",
    "test_owner_chains",
    "test_changing_kinds",
    "test_open_templates",
    "test_snatched_places",
    "test_plain_pods",
    "test_written_back_kinds",
    "test_documents",
)
"""Modules and groups that take more than 10 seconds on either server, the longest first, by `pytest --durations=0`."""
_OF_STAGE: Final = "@"


@functools.cache  # thousands of tests are in some hundred files
def is_below(path: Path, folders: tuple[Path, ...]) -> bool:
    """Whether it is one of them, or in one of them."""
    return any(map(path.is_relative_to, folders))


def group_of_stage(stage: str, module: str) -> str:
    """The group of a module on a stage that several share: the worker that has the stage open goes on with these."""
    return f"{stage}{_OF_STAGE}{module}"


def stage_of(scope: str) -> str | None:
    """The shared stage of a group, or None."""
    stage, found, _ = scope.partition(_OF_STAGE)
    return stage if found else None


class ByFileOrGroup(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """One worker runs all tests of a file, or of a group (`pytest.mark.xdist_group`), since they share what they start.

    `groups` gives the group of each test that has one, once all workers have collected.
    """

    def __init__(self, config: pytest.Config, log: Producer, groups: Callable[[], Mapping[str, str]]) -> None:
        super().__init__(config, log)
        self._groups = functools.cache(groups)
        self._stages: dict[WorkerController, str | None] = {}

    def _split_scope(self, nodeid: str) -> str:
        return self._groups().get(nodeid) or nodeid.partition("::")[0]

    def _reschedule(self, node: WorkerController) -> None:
        """A worker needs to know the test after the present one, and no more: what it is given early, no other can take."""
        if not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        scope = next_scope(
            list(self.workqueue), self._stages.get(node), self._open_elsewhere(node), self._computes(node)
        )
        self._stages[node] = stage_of(scope)
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _open_elsewhere(self, node: WorkerController) -> Counter[str]:
        return Counter(stage for other, stage in self._stages.items() if stage and other is not node)

    def _computes(self, node: WorkerController) -> bool:
        return node is self.nodes[0]


def next_scope(waiting: Sequence[str], stage: str | None, elsewhere: Mapping[str, int], computes: bool) -> str:
    """The scope, of those that wait, for a worker that has `stage` open; `elsewhere` counts the workers of each other stage.

    A worker opens a stage that others have only while more of its modules wait than workers have it.
    """
    modules = Counter(map(stage_of, waiting))

    def order(scope: str) -> tuple[bool, bool, bool, int]:
        wanted = stage_of(scope)
        crowded = wanted not in (None, stage) and modules[wanted] <= elsewhere.get(str(wanted), 0)
        goes_on = stage is not None and wanted == stage
        return not goes_on, is_of_stage(scope) == computes, crowded, _by_length(scope)

    return min(waiting, key=order)


def is_of_stage(scope: str) -> bool:
    """Every group is; a file is if it is one of STAGES."""
    file = HERE.parent / scope
    return file.suffix != ".py" or is_below(file, STAGES)


def _by_length(scope: str) -> int:
    name = Path(scope.rpartition(_OF_STAGE)[2]).stem
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)
