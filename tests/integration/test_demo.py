"""`make demo` keeps its promises, on the embedded API server with our processes as real processes."""

from __future__ import annotations

from collections import Counter

import pytest

from admission.cli.demo.observe import JobState
from admission.cli.demo.story import FOLLOWS, GPUS_PER_HOST, LEAVES
from tests.integration.conftest import Demo


@pytest.mark.parametrize("name", ["steady", "agents", FOLLOWS])
def test_pods_that_must_be_in_one_rack_are(demo: Demo, name: str) -> None:
    view = demo.told.final[name]
    assert view.racks.keys() == view.job.pod_sets.keys()
    for pod_set, racks in view.racks.items():
        replicas, pods = view.job.pod_sets[pod_set]
        assert list(racks.values()) == [replicas * pods]


def test_pods_that_prefer_one_rack_take_few(demo: Demo) -> None:
    racks = demo.told.final["evals"].racks["main"]
    assert sum(racks.values()) == 28
    assert len(racks) <= 3


def test_the_job_that_must_wait_says_why(demo: Demo) -> None:
    waiting = demo.told.waiting
    assert waiting.state is JobState.WAITING
    assert waiting.running == 0
    assert waiting.reason == "TopologyPlacementFailed"
    assert 'topology "datacenter"' in waiting.message
    assert "out of 16 pod(s)" in waiting.message
    assert waiting.message in demo.printed


def test_it_gets_in_when_the_other_has_finished(demo: Demo) -> None:
    states = {name: view.state for name, view in demo.told.final.items()}
    assert states.pop(LEAVES) is JobState.FINISHED
    assert set(states.values()) == {JobState.RUNNING}


def test_no_host_has_more_pods_than_gpus(demo: Demo) -> None:
    used = sum((Counter(view.hosts) for view in demo.told.final.values()), Counter[str]())
    assert max(used.values()) <= GPUS_PER_HOST


def test_without_a_terminal_plain_lines_tell_the_story(demo: Demo) -> None:
    lines = demo.printed.splitlines()
    told = [number for number, line in enumerate(lines) for words in (f"{FOLLOWS}: waiting", f"{LEAVES}: finished",
            f"{FOLLOWS}: running") if words in line]  # fmt: skip
    assert told == sorted(told)
    assert len(told) == 3
    assert "\x1b" not in demo.printed
    assert "└── rack-2" in demo.printed
