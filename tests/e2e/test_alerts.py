"""Rules and board on the metrics of running processes: each alert fires for its fault, alone; each expression has an answer.

promtool is Prometheus' own checker and engine, built from its module. alert_faults.py has the faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from api.embedded.server import EmbeddedSettings
from api.kube.resources import LOCAL_QUEUES
from hack import board
from hack.controlplane.fixtures import built
from hack.controlplane.prometheus import RECIPE
from tests.e2e.alert_faults import CASES, CONTROLLER, UNGATER, WEBHOOK, Faults, Watched, text_of
from tests.e2e.defects import Defects
from tests.e2e.timeline import END, HEALTHY, Promtool, answered, firing, input_series
from tests.scenarios.launchers import MovedClock
from tests.scenarios.site import Site
from tests.scenarios.stage import embedded

in_loop = pytest.mark.asyncio(loop_scope="module")
OFTEN = {"STOWAGE_CONTROLLER__FRESH_LOOK_PERIOD": "1"}
RULES = Path(__file__).resolve().parents[2] / "config" / "prometheus" / "rules.yaml"


@pytest.fixture(scope="module")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> Promtool:
    program = built(RECIPE).program("promtool")
    return Promtool(program, tmp_path_factory.mktemp("rules"), RULES)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(promtool: Promtool, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    faults = Faults()
    settings = EmbeddedSettings(intercept=faults.intercept, on_send=faults.on_send, bookmark_seconds=0.5)
    async with embedded(tmp_path_factory.mktemp("alerts"), OFTEN, settings) as stage:
        controller, found = stage.processes.children[CONTROLLER], Defects(stage.processes.folder / "defect")
        ungater, clock = stage.processes.children[UNGATER], MovedClock(stage.processes.folder / "ungater-clock")
        for child, launch in ((controller, found.start), (ungater, clock.start)):
            await child.stop()
            child.launch = launch
        await asyncio.gather(*map(stage.processes.restart, (CONTROLLER, UNGATER)))
        made = Watched(stage, Site(stage.kube, "watched"), Site(stage.kube, "more"), faults, found, clock, promtool)
        await made.site.open({"b1": {"r1": 3}})
        await made.more.open({"b1": {"r1": 4}})
        await made.site.submit(made.site.job("early", 1, gpus=4))
        await made.site.running("early", 1)
        held = {"metadata": {"name": "held", "namespace": made.site.name}}
        await made.site.make(LOCAL_QUEUES, {**held, "spec": {"clusterQueue": made.site.name, "stopPolicy": "Hold"}})
        await made.site.submit(made.site.job("held", 1, queue="held"))
        await made.until("one waits", CONTROLLER, "kueue_unadmitted_workloads", bool, cluster_queue=made.site.name)
        made.first = await made.until("capacity", CONTROLLER, "stowage_largest_gang_pods", lambda value: value > 0)
        await made.site.submit(made.site.job("later", 1, gpus=4))
        await made.site.running("later", 1)
        made.second = await made.heard_since(made.first)
        made.texts = {name: await text_of(each.health_port) for name, each in stage.processes.children.items()}
        for name, case in CASES.items():
            try:
                made.points[name] = await case.inject(made)
            except Exception as failed:  # noqa: BLE001 - the other faults are injected all the same
                made.failed[name] = failed
            finally:
                faults.end()
                found.turn_on("")
        yield made


# ---- the rules and the board themselves


def test_promtool_takes_the_rules(promtool: Promtool) -> None:
    assert "25 rules found" in promtool.check_rules()


@in_loop
async def test_every_expression_of_the_board_has_an_answer(watched: Watched) -> None:
    """With the variables as Grafana sets them for `All`."""
    series = input_series(watched.first, watched.second, watched.second)
    questions = [
        answered(settled(expression), HEALTHY - 1)
        for title, expression in board.expressions()
        if title not in MAY_BE_EMPTY
    ]
    questions += [
        {"expr": f"count({settled(expression)}) < 0", "eval_time": f"{HEALTHY}m", "exp_samples": []}
        for title, expression in board.expressions()
        if title in MAY_BE_EMPTY
    ]
    assert not watched.promtool.failures("board", series, questions)


MAY_BE_EMPTY = {"Evictions per second", "Spare hosts", "Failed reconciles per second"}
"""Panels of what has not happened yet in a sound installation; their expressions are evaluated all the same."""


def settled(expression: str) -> str:
    for name in ("flavor", "resource", "cluster_queue"):
        expression = expression.replace(f"${name}", ".*")
    return expression.replace("$namespace", "stowage-system").replace("$__rate_interval", "5m")


@in_loop
@pytest.mark.parametrize("process", [CONTROLLER, UNGATER, WEBHOOK])
async def test_the_output_is_read_without_an_error(watched: Watched, process: str) -> None:
    """promtool parses the text; its advice on names is about Kueue's."""
    done = watched.promtool.check_metrics(watched.texts[process])
    assert "error while linting" not in done.stderr, done.stderr


@in_loop
async def test_nothing_fires_while_all_is_well(watched: Watched) -> None:
    series = input_series(watched.first, watched.second, watched.second)
    assert not watched.promtool.failures("well", series, [firing(minute) for minute in (HEALTHY, 60, END - 1)])


# ---- each alert


def test_each_alert_has_a_case() -> None:
    groups = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    assert {rule["alert"] for group in groups for rule in group["rules"]} == {case.alert for case in CASES.values()}


@in_loop
@pytest.mark.parametrize("name", CASES)
async def test_a_fault_fires_its_alert_alone(watched: Watched, name: str) -> None:
    if name in watched.failed:
        raise watched.failed[name]
    case, points = CASES[name], watched.points[name]
    first = HEALTHY + case.after
    latest = HEALTHY + (case.latest or case.after)
    questions = [*([firing(first - 1)] if case.after else []), firing(latest, case.alert), firing(END - 1, case.alert)]
    assert not watched.promtool.failures(name, input_series(*points), questions)
