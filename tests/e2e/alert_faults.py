"""A fault for each alert: into the embedded server, which a test can break as it likes, or into the processes.

Three alerts tell of a defect in Stowage itself, which nothing from outside can bring about; the controller gets such a defect
while it runs (defects.py).
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import aiohttp
from aiohttp import web

from api.embedded.request import RequestTarget
from api.kube.client import PatchKind
from api.kube.resources import (
    CLUSTER_QUEUES,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from api.meta import rfc3339
from api.names import HOSTNAME_LABEL, REQUIRE_TOPOLOGY, SPARE_HOSTS
from tests.e2e import defects
from tests.e2e.defects import Defects
from tests.e2e.timeline import Promtool, Scrape, Scrapes
from tests.scenarios.failures import paused
from tests.scenarios.launchers import MovedClock
from tests.scenarios.site import GPU, RACK, Site, eventually
from tests.scenarios.stage import Stage
from tests.scenarios.test_node_failure import patient
from tests.scenarios.test_unbound import foreign

LATE = 6.0
GATES_LATE = 32.0
"""Seconds; StowageWatchLag allows five."""
MANY_VALUES = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","object":{"a":['
    + b"{}," * 100_000
    + b"{}]}}}"
)
"""A review that takes its thread some hundredths of a second."""
JSON = {"Content-Type": "application/json"}
HEARD = "stowage_informer_last_event_timestamp_seconds"
CONTROLLER, UNGATER, WEBHOOK = "controller", "ungater", "webhook"

Points = tuple[Scrapes, Scrapes, Scrapes]
"""Two scrapes while all was well, and one during a fault."""


@dataclass
class Faults:
    """What the embedded server does to the requests of our processes."""

    refuse: Callable[[web.Request, bytes], int | None] = lambda request, body: None
    silent: str = ""
    late: str = ""
    malformed: str = ""

    def end(self) -> None:
        """Of all of them."""
        self.refuse, self.silent, self.late, self.malformed = lambda request, body: None, "", "", ""

    async def intercept(self, request: web.Request) -> web.StreamResponse | None:
        ours = "stowage-" in request.headers.get("User-Agent", "")
        status = self.refuse(request, await request.read()) if ours else None
        if status is None:
            return None
        body = {"kind": "Status", "status": "Failure", "code": status, "message": "a fault of the test", "reason": ""}
        return web.json_response(body, status=status)

    async def on_send(self, request: web.Request, target: RequestTarget, data: bytes) -> bytes | None:
        plural = target.kind.plural
        if self.late and plural == "workloads" and self.late.encode() in data:
            await asyncio.sleep(LATE)
        if plural == self.malformed:
            data = data.replace(b'"labels":{', b'"labels":7,"others":{')
        return None if plural == self.silent else data


@dataclass
class Watched:
    """The installation: processes on an embedded server, a site with work, and two scrapes while all was well.

    `more` is a site with four hosts, which each case leaves empty.
    `points` are those of each case, or `failed` has why there are none. All faults were injected before the first test, one
    after the other. `patience`: seconds within which each watch is heard of.
    """

    stage: Stage
    site: Site
    more: Site
    faults: Faults
    defects: Defects
    ungater_clock: MovedClock
    promtool: Promtool
    first: Scrapes = field(default_factory=dict)
    second: Scrapes = field(default_factory=dict)
    points: dict[str, Points] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    patience: float = 60.0

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

        return await eventually("every watch is heard of", all_heard, self.patience)

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

    async def grows(self, what: str, process: str, metric: str, by: float, since: Scrapes, **labels: str) -> Scrapes:
        """The first scrape in which a series of the metric with these labels is that much more than in `since`."""

        async def seen() -> Scrapes | None:
            found = await self.scrape()
            now, was = found[process], since[process]
            for key, value in now.values.items() if now and was else ():
                named = key[0] == metric and labels.items() <= dict(key[1]).items()
                if named and was and value - was.values.get(key, 0.0) >= by:
                    return found
            return None

        return await eventually(what, seen, 60)


async def text_of(port: int) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as response,
    ):
        return await response.text()


Inject = Callable[[Watched], Awaitable[Points]]


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
    watched.faults.end()
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
    watched.faults.end()
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
    before = await watched.scrape()
    name = f"{watched.more.name}-b1-r1-0"
    await watched.stage.kube.patch(NODES, name, {"spec": {"unschedulable": True}}, kind=PatchKind.MERGE)
    await watched.until(
        "it counts", CONTROLLER, "stowage_flavor_capacity", bool, state="unusable", flavor=watched.more.name
    )
    found = await watched.heard_since(before)
    await watched.stage.kube.patch(NODES, name, {"spec": {"unschedulable": None}}, kind=PatchKind.MERGE)
    await watched.until(
        "it counts no more", CONTROLLER, "stowage_flavor_capacity", lambda value: not value, state="unusable",
        flavor=watched.more.name,
    )  # fmt: skip
    return before, before, found


async def too_many_large_reviews(watched: Watched) -> Points:
    """Sixteen at once, of which eight may wait for their thread."""
    before = await watched.scrape()
    url = f"{watched.stage.processes.webhook_url}/mutate-batch-v1-job"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as session:

        async def post() -> None:
            async with session.post(url, data=io.BytesIO(MANY_VALUES), headers=JSON, ssl=False) as response:
                await response.read()

        await asyncio.gather(*(post() for _ in range(16)))
    await watched.grows("some are refused", WEBHOOK, "stowage_reviews_total", 1, before, outcome="busy")
    return before, before, await watched.heard_since(before)


async def no_job_can_be_patched(watched: Watched) -> Points:
    """Sixteen jobs that are admitted and not started, each tried again and again."""
    before = await watched.scrape()

    def refuse(request: web.Request, body: bytes) -> int | None:
        return 403 if request.method == "PATCH" and "/jobs/" in request.path else None

    watched.faults.refuse = refuse
    names = [f"unpatched-{n}" for n in range(16)]
    for name in names:
        await watched.more.submit(watched.more.job(name, 1))
    await watched.grows("reconciles fail", CONTROLLER, "stowage_reconcile_errors_total", 30, before, queue="jobs")
    found = await watched.heard_since(before)
    watched.faults.end()
    for name in names:
        await watched.more.running(name, 1)
        await watched.more.remove(JOBS, name)
    return before, before, found


async def an_object_is_malformed(watched: Watched) -> Points:
    """A node whose labels are a number."""
    before = await watched.scrape()
    name = f"{watched.more.name}-b1-r1-0"
    watched.faults.malformed = "nodes"
    await watched.stage.kube.patch(NODES, name, {"metadata": {"annotations": {"a": "1"}}}, kind=PatchKind.MERGE)
    for process in (CONTROLLER, UNGATER):
        metric = "stowage_informer_undecodable_total"
        await watched.grows(f"{process} leaves it out", process, metric, 1, before, resource="nodes")
    watched.faults.malformed = ""
    found = await watched.heard_since(before)
    await watched.stage.kube.patch(NODES, name, {"metadata": {"annotations": {"a": "2"}}}, kind=PatchKind.MERGE)
    return before, before, found


async def the_watch_is_late(watched: Watched) -> Points:
    """Of one Workload, by more than the alert allows: events of others, such as of earlier faults, would add their delays."""
    before = await watched.scrape()
    watched.faults.late = "job-late-"
    await watched.more.submit(watched.more.job("late", 1))
    metric = "stowage_watch_lag_seconds_sum"  # from the response to a write on, which its event may have left before
    await watched.grows("a change came late", CONTROLLER, metric, LATE - 0.5, before, resource="workloads")
    found = await watched.heard_since(before)
    watched.faults.late = ""
    await watched.more.running("late", 1)
    await watched.more.remove(JOBS, "late")
    return before, before, found


async def the_ungater_stands_still(watched: Watched) -> Points:
    """For longer than the alert allows after a job was admitted, by its own clock; then it opens the gates."""
    before = await watched.scrape()
    more = watched.more
    with paused(watched.stage.processes.children[UNGATER]):
        await more.submit(more.job("gated", 4))
        await more.admitted("gated")
        watched.ungater_clock.jump(GATES_LATE)
    await more.running("gated", 4)
    await watched.until("it leads again", UNGATER, "stowage_leader", bool, lease="stowage-ungater")
    found = await watched.heard_since(before)
    watched.ungater_clock.jump(0.0)

    async def its_clock_is_right() -> bool:
        now = (await watched.scrape())[UNGATER]
        return now is not None and all(value <= now.at for key, value in now.values.items() if key[0] == HEARD)

    await eventually("every watch is heard of by the right clock", its_clock_is_right)
    await more.remove(JOBS, "gated")
    return before, before, found


async def a_foreign_pod_takes_the_place(watched: Watched) -> Points:
    """Of a pod of a gang, which kube-scheduler then refuses."""
    taken = Site(watched.stage.kube, "taken")
    await taken.open({"b1": {"r1": 2}})
    await taken.submit(patient(taken.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    lost, _ = await taken.running("gang", 2)
    before = await watched.scrape()
    await taken.make(PODS, foreign(taken, lost["spec"]["nodeName"]))  # it waits for the host already
    await taken.kube.delete(PODS, lost["metadata"]["name"], taken.name, grace_seconds=0)
    metric = "stowage_pods_unschedulable_after_gate_total"
    await watched.grows("the pod is refused", CONTROLLER, metric, 1, before, cluster_queue=taken.name)
    found = await watched.heard_since(before)
    await taken.kube.delete(PODS, "foreign", taken.name, grace_seconds=0)
    await taken.running("gang", 2)
    return before, before, found


async def a_whole_host_is_nowhere_free(watched: Watched) -> Points:
    """One GPU of each host is used, and a job asks for four of one."""
    before, more = await watched.scrape(), watched.more
    names = [f"pinned-{n}" for n in range(4)]
    for n, name in enumerate(names):
        job = more.job(name, 1)
        job["spec"]["template"]["spec"]["nodeSelector"] = {HOSTNAME_LABEL: f"{more.name}-b1-r1-{n}"}
        await more.submit(job)
        await more.running(name, 1)
    await more.submit(more.job("whole", 1, gpus=4))
    await more.waits("whole", "TopologyPlacementFailed", "")
    cause = "TopologyPlacementFailed"
    await watched.until(
        "it counts", CONTROLLER, "kueue_unadmitted_workloads", bool, cluster_queue=more.name, underlying_cause=cause
    )
    await watched.until(
        "the free capacity is shown", CONTROLLER, "stowage_flavor_capacity", lambda value: value == 12, flavor=more.name,
        resource=GPU, state="free",
    )  # fmt: skip
    found = await watched.heard_since(before)
    for name in ("whole", *names):
        await more.remove(JOBS, name)
    return before, before, found


async def a_job_is_too_large(watched: Watched) -> Points:
    """For any host, whatever runs there."""
    before, more = await watched.scrape(), watched.more
    await more.submit(more.job("too-large", 1, gpus=5))
    await watched.until("it counts", CONTROLLER, "stowage_workloads_cannot_run", bool, cluster_queue=more.name)
    found = await watched.heard_since(before)
    await more.remove(JOBS, "too-large")
    await watched.until(
        "it counts no more",
        CONTROLLER,
        "stowage_workloads_cannot_run",
        lambda value: not value,
        cluster_queue=more.name,
    )
    return before, before, found


async def a_queue_is_misspelt(watched: Watched) -> Points:
    before, more = await watched.scrape(), watched.more
    await more.submit(more.job("misspelt", 1, queue="no-such-queue"))
    await watched.until("it counts", CONTROLLER, "stowage_workloads_without_queue", bool, namespace=more.name)
    found = await watched.heard_since(before)
    await more.remove(JOBS, "misspelt")
    return before, before, found


async def pods_are_refused(watched: Watched) -> Points:
    """As the Job controller says it of a ResourceQuota, which the embedded server does not have."""
    before, more = await watched.scrape(), watched.more
    wanted = more.job("refused", 2)
    wanted["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/hold"}]  # no pod is bound
    job = await more.submit(wanted)
    await more.admitted("refused")
    about = {"apiVersion": "batch/v1", "kind": "Job", "name": "refused", "uid": job["metadata"]["uid"]}
    event = {
        "metadata": {"name": "refused", "namespace": more.name},
        "involvedObject": {**about, "namespace": more.name},
        "reason": "FailedCreate",
        "type": "Warning",
        "message": "exceeded quota: few",
        "lastTimestamp": rfc3339(time.time() + 1),
    }
    await more.make(EVENTS, event)
    metric = "stowage_workloads_not_created_total"
    await watched.grows("it counts", CONTROLLER, metric, 1, before, cluster_queue=more.name)
    found = await watched.heard_since(before)
    await more.remove(JOBS, "refused")
    return before, before, found


async def workloads_are_evicted(watched: Watched) -> Points:
    """One is deactivated, and so one each minute of the timeline."""
    more = watched.more
    await more.submit(more.job("evicted", 1))
    await more.running("evicted", 1)
    before = await watched.scrape()
    workload = await more.workload_of("evicted")
    assert workload is not None
    inactive = {"spec": {"active": False}}
    await more.kube.patch(WORKLOADS, workload.metadata.name, inactive, more.name, kind=PatchKind.MERGE)
    await watched.grows("it counts", CONTROLLER, "kueue_evicted_workloads_total", 1, before, cluster_queue=more.name)
    found = await watched.heard_since(before)
    await more.remove(JOBS, "evicted")
    return before, before, found


def a_scrape_with(process: str, metric: str, value: float, **labels: str) -> Inject:
    """What the process answers, with another value of one series: what takes months, or a failure at a certain moment."""

    async def inject(watched: Watched) -> Points:
        before = await watched.scrape()
        found = dict(await watched.heard_since(before))
        scrape = found[process]
        assert scrape is not None
        keys = [key for key in scrape.values if key[0] == metric and labels.items() <= dict(key[1]).items()]
        assert len(keys) == 1, f"{metric} has the series {keys}"
        new = scrape.values[keys[0]] + value if keys[0] in scrape.growing else value
        found[process] = replace(scrape, values={**scrape.values, keys[0]: new})
        return before, before, found

    return inject


def a_defect(name: str, seen: Callable[[Watched], Awaitable[object]]) -> Inject:
    """The controller has it until its effect is seen."""

    async def inject(watched: Watched) -> Points:
        before = await watched.scrape()
        watched.defects.turn_on(name)
        await seen(watched)
        return before, before, await watched.heard_since(before)

    return inject


async def a_workload_is_set_aside(watched: Watched) -> None:
    await watched.more.submit(watched.more.job("undecidable", 1))
    await watched.until("it is set aside", CONTROLLER, "stowage_undecided_total", bool)
    await watched.more.remove(JOBS, "undecidable")


async def a_workload_is_not_woken(watched: Watched) -> None:
    """One waits for all hosts, which are free when the other has ended."""
    more = watched.more
    for name in ("before", "forgotten"):
        await more.submit(more.job(name, 4, gpus=4))
    await more.running("before", 4)
    await more.waits("forgotten", "TopologyPlacementFailed", "")
    await more.remove(JOBS, "before")
    await watched.until("it is found", CONTROLLER, "stowage_lost_wake_ups_total", bool)
    await more.remove(JOBS, "forgotten")


async def eight_jobs_come_one_by_one(watched: Watched) -> None:
    """Each takes a cycle at least."""
    for n in range(8):
        await watched.more.submit(watched.more.job(f"slow-{n}", 1))
        await watched.more.running(f"slow-{n}", 1)
    for n in range(8):
        await watched.more.remove(JOBS, f"slow-{n}")


async def an_audit_has_found_it(watched: Watched) -> None:
    """A foreign pod runs, which the ledger loses."""
    await watched.more.make(PODS, foreign(watched.more, f"{watched.more.name}-b1-r1-3"))
    await watched.until("it is found", CONTROLLER, "stowage_ledger_differences", bool)


@dataclass(frozen=True)
class Case:
    """`after`: the minute after the fault's begin in which the alert fires first, or the first two that are possible."""

    alert: str
    inject: Inject
    after: int
    latest: int | None = None


CASES = {
    "reviews-refused": Case("StowageWebhookFailing", too_many_large_reviews, 6),
    "reconciles-fail": Case("StowageReconcilesFailing", no_job_can_be_patched, 11, 13),
    "requests-fail": Case("StowageRequestsFailing", half_of_the_requests_fail, 6),
    "admissions-refused": Case("StowageAdmissionsNotWritten", admissions_are_refused, 5),
    "watch-silent": Case("StowageWatchSilent", a_watch_is_silent, 12),
    "watch-late": Case("StowageWatchLag", the_watch_is_late, 5),
    "unreadable": Case("StowageObjectsUnreadable", an_object_is_malformed, 0),
    "gates-late": Case("StowageGatesSlow", the_ungater_stands_still, 5),
    "pods-refused": Case("StowagePodsUnschedulable", a_foreign_pod_takes_the_place, 5),
    "no-spare-host": Case("StowageSpareHostsLacking", no_host_is_left_to_spare, 30),
    "nodes-unusable": Case("StowageNodesUnusable", a_node_is_cordoned, 15),
    "certificate-ends": Case(
        "StowageCertificateEnds", a_scrape_with(WEBHOOK, "stowage_certificate_remaining_ratio", 0.1), 15
    ),
    "no-whole-host": Case("StowageWaitsWithRoom", a_whole_host_is_nowhere_free, 60),
    "too-large": Case("StowageCannotRun", a_job_is_too_large, 30),
    "queue-misspelt": Case("StowageQueueMissing", a_queue_is_misspelt, 30),
    "pods-not-created": Case("StowagePodsNotCreated", pods_are_refused, 5, 6),
    "evictions": Case("StowageEvictions", workloads_are_evicted, 10, 20),
    "moves-fail": Case(
        "StowageMovesFailing",
        a_scrape_with(CONTROLLER, "stowage_moves_total", 1, outcome="changed", cluster_queue="more"),
        8,
        11,
    ),
    "loop-held": Case("StowageLoopHeld", a_defect(defects.LOOP_HELD, eight_jobs_come_one_by_one), 11),
    "undecided": Case("StowageUndecided", a_defect(defects.UNDECIDED, a_workload_is_set_aside), 0),
    "not-woken": Case("StowageWakeUpLost", a_defect(defects.FORGETFUL, a_workload_is_not_woken), 0),
    "ledger-wrong": Case("StowageLedgerDrift", a_defect(defects.LEDGER_WRONG, an_audit_has_found_it), 0),
    # what follows leaves traces: a queue that is deleted, and processes that do not come back
    "queue-inactive": Case("StowageClusterQueueInactive", a_queue_names_no_flavor, 15),
    "no-webhook": Case("StowageWebhookDown", killed(WEBHOOK), 2),
    "no-ungater": Case("StowageNoLeader", killed(UNGATER), 6),
    "no-controller": Case("StowageNoLeader", killed(CONTROLLER), 6),
}
