"""Rules and board on the metrics of running processes: each alert fires for its fault, alone; each expression has an answer.

promtool is Prometheus' own checker and engine, built from its module. The processes run on the embedded server, where a test
can break what it likes. A fault of an installation is injected there; what only a defect would cause is counted by the
product's code in this process, and added to what the process in question answers (`Scrape.added`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
import yaml
from aiohttp import web
from prometheus_client import REGISTRY, generate_latest

from admission import metrics
from admission.controllers.ledger_audit import audited
from admission.engine.model import ObjectRemoved, RemovedKind
from admission.webhook.metrics import count_review
from api.fake.request import RequestTarget
from api.fake.server import FakeSettings
from api.kube import metrics as of_access
from api.kube.client import PatchKind
from api.kube.lag import watch_loop
from api.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS
from api.kube.watch_lag import OwnWrites
from api.names import SPARE_HOSTS
from hack import board
from hack.controlplane.fixtures import built
from hack.controlplane.prometheus import RECIPE
from tests.admission.controllers.test_capacity_gauges import FLAVOR, Sheet, host
from tests.admission.engine.test_ledger import book, pod
from tests.admission.engine.test_ledger import host as gpu_host
from tests.api.kube.clock import ManualClock
from tests.e2e.timeline import END, HEALTHY, Promtool, Scrape, Scrapes, answered, firing, input_series
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.stage import Stage, embedded

in_loop = pytest.mark.asyncio(loop_scope="module")
RULES = Path(__file__).resolve().parents[2] / "config" / "prometheus" / "rules.yaml"
HEARD = "stowage_informer_last_event_timestamp_seconds"
CONTROLLER, UNGATER, WEBHOOK = "controller", "ungater", "webhook"

Points = tuple[Scrapes, Scrapes, Scrapes]
"""Two scrapes while all was well, and one during a fault."""


@dataclass
class Faults:
    """What the embedded server does to the requests of our processes."""

    refuse: Callable[[web.Request, bytes], int | None] = lambda request, body: None
    silent: str = ""

    async def intercept(self, request: web.Request) -> web.StreamResponse | None:
        ours = "stowage-" in request.headers.get("User-Agent", "")
        status = self.refuse(request, await request.read()) if ours else None
        if status is None:
            return None
        body = {"kind": "Status", "status": "Failure", "code": status, "message": "a fault of the test", "reason": ""}
        return web.json_response(body, status=status)

    async def on_send(self, request: web.Request, target: RequestTarget, data: bytes) -> bytes | None:
        return None if target.kind.plural == self.silent else data


@dataclass
class Watched:
    """The installation: processes on an embedded server, a site with work, and two scrapes while all was well.

    `points` are those of each case. All faults were injected before the first test, one after the other.
    """

    stage: Stage
    site: Site
    faults: Faults
    promtool: Promtool
    first: Scrapes = field(default_factory=dict)
    second: Scrapes = field(default_factory=dict)
    points: dict[str, Points] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    async def scrape(self) -> dict[str, Scrape | None]:
        return {name: await self._scrape(child.health_port) for name, child in self.stage.processes.children.items()}

    async def heard_since(self, before: Scrapes, but: str = "") -> Scrapes:
        """The first scrape after `before` in which each watch was heard of again, `but` those of one resource."""

        def heard(process: str, now: Scrape | None) -> bool:
            was = before[process]
            times = [(key, value) for key, value in was.values.items() if value and key[0] == HEARD] if was else []
            return all(dict(key[1])["resource"] == but or (now and now.values[key] > value) for key, value in times)

        async def all_heard() -> Scrapes | None:
            found = await self.scrape()
            return found if all(heard(process, scrape) for process, scrape in found.items()) else None

        return await eventually("every watch is heard of", all_heard, 60)

    async def _scrape(self, port: int) -> Scrape | None:
        try:
            return Scrape.of(await text_of(port), time.time())
        except aiohttp.ClientError:
            return None

    async def until(
        self, what: str, process: str, metric: str, check: Callable[[float], bool], **labels: str
    ) -> Scrapes:
        """The first scrape in which a series of the metric with these labels is so."""

        async def seen() -> Scrapes | None:
            found = await self.scrape()
            answer = found[process]
            for (name, own), value in answer.values.items() if answer else ():
                if name == metric and labels.items() <= dict(own).items() and check(value):
                    return found
            return None

        return await eventually(what, seen, 60)


async def text_of(port: int) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as response,
    ):
        return await response.text()


@pytest.fixture(scope="module")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> Promtool:
    program = built(RECIPE).program("promtool")
    return Promtool(program, tmp_path_factory.mktemp("rules"), RULES)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(promtool: Promtool, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    faults = Faults()
    settings = FakeSettings(intercept=faults.intercept, on_send=faults.on_send, bookmark_seconds=0.5)
    async with embedded(tmp_path_factory.mktemp("alerts"), None, settings) as stage:
        made = Watched(stage, Site(stage.kube, "watched"), faults, promtool)
        await made.site.open({"b1": {"r1": 3}})
        await made.site.submit(made.site.job("too-large", 1, gpus=5))
        await made.site.waits("too-large", "TopologyPlacementFailed", "")
        await made.site.submit(made.site.job("early", 1, gpus=4))
        await made.site.running("early", 1)
        made.first = await made.until("capacity", CONTROLLER, "stowage_largest_gang_pods", lambda value: value > 0)
        await made.site.submit(made.site.job("later", 1, gpus=4))
        await made.site.running("later", 1)
        await asyncio.sleep(1)  # bookmarks of every watch
        made.second = await made.scrape()
        made.texts = {name: await text_of(each.health_port) for name, each in stage.processes.children.items()}
        for name, case in CASES.items():
            made.points[name] = await case.inject(made)
        yield made


# ---- the rules and the board themselves


def test_promtool_takes_the_rules(promtool: Promtool) -> None:
    assert "17 rules found" in promtool.check_rules()


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


MAY_BE_EMPTY = {"Evictions per second", "Spare hosts", "Pods refused by kube-scheduler", "Failed reconciles per second"}
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


Inject = Callable[[Watched], Awaitable[Points]]


def counted(process: str, do: Callable[[], Awaitable[None] | None]) -> Inject:
    """The fault is what `do` makes the product's own code count in this process."""

    async def inject(watched: Watched) -> Points:
        before = Scrape.of(generate_latest(REGISTRY).decode(), time.time())
        if (doing := do()) is not None:
            await doing
        after = Scrape.of(generate_latest(REGISTRY).decode(), time.time())
        scrape = watched.second[process]
        assert scrape is not None
        return watched.first, watched.second, {**watched.second, process: scrape.added(before, after)}

    return inject


def killed(process: str) -> Inject:
    """The process ends and does not come back."""

    async def inject(watched: Watched) -> Points:
        await watched.stage.processes.crash(process)
        assert (await watched.scrape())[process] is None
        return watched.first, watched.second, {**watched.second, process: None}

    return inject


async def half_of_the_requests_fail(watched: Watched) -> Points:
    """The first try of each; the second succeeds."""
    before, tried = await watched.scrape(), set[tuple[str, str]]()

    def refuse(request: web.Request, body: bytes) -> int | None:
        key = request.method, request.path
        if request.query.get("watch") or "/leases/" in request.path or request.method == "POST" or key in tried:
            return None
        tried.add(key)
        return 503

    watched.faults.refuse = refuse
    await watched.site.submit(watched.site.job("hindered", 1))
    await watched.site.running("hindered", 1)
    watched.faults.refuse = lambda request, body: None
    await watched.until("503", CONTROLLER, "stowage_api_requests_total", bool, code="503")
    return before, before, await watched.heard_since(before)


async def admissions_are_refused(watched: Watched) -> Points:
    before = await watched.scrape()

    def refuse(request: web.Request, body: bytes) -> int | None:
        writes = request.method == "PATCH" and request.path.endswith("/status") and "/workloads/" in request.path
        return 403 if writes and b'"podSetAssignments"' in body else None

    watched.faults.refuse = refuse
    await watched.site.submit(watched.site.job("refused", 1))
    await watched.until("one failed", CONTROLLER, "stowage_admission_writes_total", bool, outcome="failed")
    found = await watched.heard_since(before)
    watched.faults.refuse = lambda request, body: None
    await watched.site.running("refused", 1)
    return before, before, found


async def a_watch_is_silent(watched: Watched) -> Points:
    """Of nodes, while all others are heard."""
    watched.faults.silent = "nodes"
    earlier = await watched.scrape()
    before = await watched.heard_since(earlier, but="nodes")  # what was on its way has come
    during = await watched.heard_since(before, but="nodes")
    watched.faults.silent = ""
    return before, before, during


async def a_queue_names_no_flavor(watched: Watched) -> Points:
    before = await watched.scrape()
    site, flavor = watched.site, {"name": "none", "resources": [{"name": "cpu", "nominalQuota": 1}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    await site.make(CLUSTER_QUEUES, {"metadata": {"name": "lost"}, "spec": {"resourceGroups": groups}})
    metadata = {"name": "lost", "namespace": site.name}
    await site.make(LOCAL_QUEUES, {"metadata": metadata, "spec": {"clusterQueue": "lost"}})
    await site.submit(site.job("waits", 1, queue="lost"))
    await watched.until("it waits", CONTROLLER, "kueue_pending_workloads", bool, cluster_queue="lost")
    await watched.until(
        "it is inactive", CONTROLLER, "kueue_cluster_queue_status", bool, cluster_queue="lost", status="pending"
    )
    found = await watched.heard_since(before)
    await site.kube.delete(CLUSTER_QUEUES, "lost")
    return before, before, found


async def no_host_is_left_to_spare(watched: Watched) -> Points:
    before = await watched.scrape()
    site, rule = watched.site, f"2 of 3 hosts of each {RACK}"
    patch = {"metadata": {"annotations": {SPARE_HOSTS: rule}}}
    await site.kube.patch(RESOURCE_FLAVORS, site.name, patch, kind=PatchKind.MERGE)
    await watched.until("hosts lack", CONTROLLER, "stowage_flavor_spare_hosts", bool, state="lacking")
    found = await watched.heard_since(before)
    patch = {"metadata": {"annotations": {SPARE_HOSTS: None}}}  # type: ignore[dict-item]
    await site.kube.patch(RESOURCE_FLAVORS, site.name, patch, kind=PatchKind.MERGE)
    return before, before, found


async def a_node_is_cordoned(watched: Watched) -> Points:
    """One of four."""
    sheet, node = Sheet(), host("a1", "a")
    sheet.ledger.apply(replace(node, usable=False))
    points = await counted(CONTROLLER, sheet.renew)(watched)
    sheet.ledger.apply(ObjectRemoved(RemovedKind.FLAVOR, FLAVOR))
    sheet.renew()
    return points


async def the_ledger_is_wrong() -> None:
    ledger = book(gpu_host("n1"))
    ledger.apply(pod("foreign", "n1"))
    ledger._capacity.nodes["n1"].foreign.clear()
    await audited(ledger, pause=0.0)


async def the_loop_is_held() -> None:
    """Twice as often in a minute as the alert allows."""
    watching = asyncio.create_task(watch_loop())
    for _ in range(8):
        await asyncio.sleep(0.05)
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
    await asyncio.sleep(0.1)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


async def the_watch_is_late() -> None:
    clock = ManualClock()
    writes = OwnWrites(of_access.WATCH_LAG.labels("workloads"), clock)
    for number in range(50):
        writes.written(str(number), "1")
    await clock.advance(20)
    for number in range(50):
        writes.delivered(str(number), "1")


def gates_open_late() -> None:
    for _ in range(10):
        of_access.GATE_REMOVAL.labels("kueue.x-k8s.io/topology", "watched", "false").observe(90)


def reconciles_fail() -> None:
    of_access.RECONCILE_ERRORS.labels("jobs", "Forbidden").inc(10)


@dataclass(frozen=True)
class Case:
    """`after`: the minute after the fault's begin in which the alert fires first."""

    alert: str
    inject: Inject
    after: int


CASES = {
    "reviews-fail": Case(
        "StowageWebhookFailing", counted(WEBHOOK, lambda: count_review("/mutate-batch-v1-job", "failed")), 6
    ),
    "loop-held": Case("StowageLoopHeld", counted(CONTROLLER, the_loop_is_held), 11),
    "ledger-wrong": Case("StowageLedgerDrift", counted(CONTROLLER, the_ledger_is_wrong), 0),
    "undecided": Case("StowageUndecided", counted(CONTROLLER, metrics.UNDECIDED.inc), 0),
    "reconciles-fail": Case("StowageReconcilesFailing", counted(CONTROLLER, reconciles_fail), 13),
    "requests-fail": Case("StowageRequestsFailing", half_of_the_requests_fail, 6),
    "admissions-refused": Case("StowageAdmissionsNotWritten", admissions_are_refused, 5),
    "watch-silent": Case("StowageWatchSilent", a_watch_is_silent, 12),
    "watch-late": Case("StowageWatchLag", counted(CONTROLLER, the_watch_is_late), 5),
    "unreadable": Case(
        "StowageObjectsUnreadable",
        counted(CONTROLLER, lambda: of_access.INFORMER_UNDECODABLE.labels("nodes").inc()),
        0,
    ),
    "gates-late": Case("StowageGatesSlow", counted(UNGATER, gates_open_late), 5),
    "pods-refused": Case(
        "StowagePodsUnschedulable", counted(CONTROLLER, lambda: metrics.UNSCHEDULABLE.labels("watched").inc()), 5
    ),
    "no-spare-host": Case("StowageSpareHostsLacking", no_host_is_left_to_spare, 30),
    "nodes-unusable": Case("StowageNodesUnusable", a_node_is_cordoned, 15),
    # what follows leaves traces: a queue that is deleted, and processes that do not come back
    "queue-inactive": Case("StowageClusterQueueInactive", a_queue_names_no_flavor, 15),
    "no-webhook": Case("StowageWebhookDown", killed(WEBHOOK), 2),
    "no-ungater": Case("StowageNoLeader", killed(UNGATER), 6),
    "no-controller": Case("StowageNoLeader", killed(CONTROLLER), 6),
}


def test_each_alert_has_a_case() -> None:
    groups = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    assert {rule["alert"] for group in groups for rule in group["rules"]} == {case.alert for case in CASES.values()}


@in_loop
@pytest.mark.parametrize("name", CASES)
async def test_a_fault_fires_its_alert_alone(watched: Watched, name: str) -> None:
    case, points = CASES[name], watched.points[name]
    first = HEALTHY + case.after
    questions = [*([firing(first - 1)] if case.after else []), firing(first, case.alert), firing(END - 1, case.alert)]
    assert not watched.promtool.failures(name, input_series(*points), questions)
