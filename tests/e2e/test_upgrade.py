"""One version replaces another while jobs run and wait: an upgrade, and a rollback with a second upgrade.

The other version is an older commit (`BEFORE`), with its own config; `STOWAGE_UPGRADE_FROM` names another commit. The order is
that of docs/start.md: config/default of the new version, then its processes, one replica after the other. Every order of
processes happens in a cluster, so both extremes are played: a webhook newer than controller and ungater, and one that is older.
"""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from admission.cli.local_cluster.embedded import NAMESPACE
from admission.cli.local_cluster.install import by_url
from admission.cli.local_cluster.ports import free_port
from admission.cli.local_cluster.processes import COMMANDS, Start, StowageProcesses
from api.kube.client import Kube
from api.kube.resources import JOBS, JOBSETS, PODS, STATEFUL_SETS, WORKLOADS
from api.kube.settings import ClientSettings
from api.meta import find_condition
from api.names import ADMITTED, POD_GROUP_NAME, POD_GROUP_TOTAL_COUNT, QUOTA_RESERVED, REQUIRE_TOPOLOGY
from api.workloads import Workload
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.scenarios import gangs, stateful_sets
from tests.scenarios.change_watcher import Watchman, watched
from tests.scenarios.failures import SHORT_LEASE, complaints
from tests.scenarios.forked_processes import start_forked
from tests.scenarios.launchers import OtherVersion
from tests.scenarios.replicas import Replicas
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.stage_processes import playing

CONTROL_PLANE = ClusterOptions(jobset=True)
ROOT: Final = Path(__file__).resolve().parents[2]
BEFORE: Final = "7a6f75da"
"""The last commit before `stowage version` was added: the older version."""
WIDTH: Final = 5
"""Pods of each workload that waits; four GPUs of the quota are left for what comes meanwhile."""
QUOTA: Final = 15
Obj = dict[str, Any]


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the earlier version."""
    commit = os.environ.get("STOWAGE_UPGRADE_FROM", BEFORE)
    words = ["git", "-C", str(ROOT), "archive", commit, "api", "admission", "ungater", "config"]
    try:
        archive = subprocess.run(words, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as missing:
        pytest.skip(f"this clone lacks the commit {commit}: {missing}")
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def apply(cluster: ControlPlane, version: Path, webhook_url: str) -> None:
    """`kubectl apply --server-side -k config/default`, where the webhook is a process outside of the cluster.

    Without --force-conflicts: what the processes wrote since must not be in the way.
    """
    objects = list(yaml.safe_load_all(cluster.kubectl("kustomize", str(version / "config" / "default"))))
    for obj in objects:
        if obj["kind"].endswith("WebhookConfiguration"):
            obj["webhooks"] = [by_url(hook, webhook_url) for hook in obj["webhooks"]]
        elif obj["kind"] == "CustomResourceDefinition" and "conversion" in obj["spec"]:
            conversion = obj["spec"]["conversion"]
            conversion["webhook"] = by_url(conversion["webhook"], webhook_url)
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(objects))


@dataclass(frozen=True)
class Version:
    """The files of a version, and how its processes are started."""

    files: Path
    launch: Start


@dataclass
class Installation:
    """The processes, one replica each, and the Service before the webhook's."""

    processes: StowageProcesses
    service: Replicas

    async def roll(self, name: str, version: Version) -> None:
        """As a Deployment does: a replica of the new version gets ready, then the one before ends."""
        old = self.processes.children[name]
        own, port = dict(old.environment), free_port()
        if name == "webhook":
            own |= {"STOWAGE_WEBHOOK__PORT": str(port), "STOWAGE_WEBHOOK__URL": f"https://127.0.0.1:{port}"}
        log = old.log.with_name(f"new-{old.log.name}")
        new = replace(old, environment=own, health_port=free_port(), log=log, process=None, launch=version.launch)
        self.processes.children[name] = new
        try:
            await new.start()
            await new.ready(120)
            if name == "webhook":
                self.service.backends.append((new, port))

                async def served() -> bool:
                    return port in self.service.ready

                await eventually("the Service knows the new replica", served)
                self.service.backends = [(new, port)]
        finally:
            await old.stop()


# ---- jobs


async def pods_of(site: Site) -> dict[str, tuple[str, str, int]]:
    """Of those that are bound: UID, node and restarts, by name."""
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            pod["spec"]["nodeName"],
            sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ())),
        )
        for pod in (await site.kube.list(PODS, site.name)).items
        if pod["spec"].get("nodeName")
    }


async def admissions(site: Site) -> dict[str, tuple[object, ...]]:
    """What each admitted Workload has got, and since when, by UID."""
    found: dict[str, tuple[object, ...]] = {}
    for item in (await site.kube.list(WORKLOADS, site.name)).items:
        workload = Workload.from_wire(item)
        conditions = [find_condition(workload.status.conditions, name) for name in (QUOTA_RESERVED, ADMITTED)]
        if workload.status.admission:
            since = [(each.status, each.last_transition_time) for each in conditions if each]
            found[workload.metadata.uid] = workload.status.admission, *since
    return found


async def group(site: Site, name: str, pods: int) -> None:
    total = {POD_GROUP_TOTAL_COUNT: str(pods)}
    members = (gangs.a_pod(site, f"{name}-{n}", {POD_GROUP_NAME: name}, total, gpus=1, queue="lq") for n in range(pods))
    await gangs.create(site, *members)


async def end(site: Site, name: str) -> None:
    """Deletes the Job or JobSet; lets pods of a group succeed, since a deleted one would await its replacement."""
    if not name.endswith("group"):
        await site.remove(JOBSETS if name.endswith("set") else JOBS, name)
        return
    pods = (await site.kube.list(PODS, site.name, label_selector=f"{POD_GROUP_NAME}={name}")).items
    await gangs.end(site, [pod["metadata"]["name"] for pod in pods])


def of(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Of now, what there was before."""
    return {name: now.get(name) for name in before}


async def running_ones(site: Site) -> None:
    """Eleven pods of six kinds of workloads."""
    await site.submit(site.job("job", 2, {REQUIRE_TOPOLOGY: RACK}))
    await site.submit_jobset(site.jobset("set", {"a": (1, 1), "b": (1, 1)}, {REQUIRE_TOPOLOGY: RACK}))
    await group(site, "group", 2)
    gang = (gangs.a_pod(site, f"gang-{n}", gangs.said("gang", 2), gpus=1, queue="lq") for n in range(2))
    await gangs.create(site, *gang, gangs.a_pod(site, "pod-0", {}, gpus=1, queue="lq"))
    await site.make(STATEFUL_SETS, stateful_sets.a_set(site, "stateful", 2))
    await site.running("job", 2)
    await site.running("set", 2, jobset=True)
    for name, count in {"group-": 2, "gang-": 2, "pod-": 1, "stateful-": 2}.items():
        await gangs.expect_phases(site, name, Running=count)


async def waiting_ones(site: Site) -> None:
    await site.submit(site.job("late-job", WIDTH, {REQUIRE_TOPOLOGY: RACK}))
    await site.submit_jobset(site.jobset("late-set", {"a": (1, WIDTH)}, {REQUIRE_TOPOLOGY: RACK}))
    await group(site, "late-group", WIDTH)
    await still_waiting(site)


async def still_waiting(site: Site) -> None:
    for name in ("late-job", "late-set", "late-group-0"):
        await site.waits(name, "WaitingForQuota", "insufficient unused quota")


async def come_and_go(site: Site, name: str) -> None:
    """In what is left of the quota, jobs of three kinds start and end."""
    await site.submit(site.job(f"{name}-job", 2, {REQUIRE_TOPOLOGY: RACK}))
    await site.submit_jobset(site.jobset(f"{name}-set", {"a": (1, 1)}, {REQUIRE_TOPOLOGY: RACK}))
    await group(site, f"{name}-group", 1)
    await site.running(f"{name}-job", 2)
    await site.running(f"{name}-set", 1, jobset=True)
    await gangs.expect_phases(site, f"{name}-group-", Running=1)
    await still_waiting(site)
    for kind in ("job", "set", "group"):
        await end(site, f"{name}-{kind}")


async def late_ones_start(site: Site, seen: Watchman) -> None:
    """Two of three when what ran first has gone, the third after another has."""
    for name in ("job", "set", "group"):
        await end(site, name)

    async def runs(name: str) -> None:
        if name.endswith("group"):
            await gangs.expect_phases(site, f"{name}-", Running=WIDTH)
        else:
            await site.running(name, WIDTH, jobset=name.endswith("set"))

    def started(watchman: Watchman) -> set[str]:
        """A group's Workload belongs to its pods."""
        return {"-".join(name.split("-")[:2]) for name in watchman.admitted if name.startswith("late-")}

    every = {"late-job", "late-set", "late-group"}
    await seen.sees("two of them are admitted", lambda watchman: len(started(watchman)) == 2)
    first, second = sorted(started(seen))
    assert {first, second} < every
    await runs(first)
    await end(site, first)
    for name in every - {first}:
        await runs(name)


# ---- the upgrade

NEWER_WEBHOOK = ("webhook", "controller", "ungater")
OLDER_WEBHOOK = ("controller", "ungater", "webhook")
WAYS = {
    "upgrade, webhook first": ("before", [("this", NEWER_WEBHOOK)]),
    "upgrade, webhook last": ("before", [("this", OLDER_WEBHOOK)]),
    "rollback, and the upgrade again": ("this", [("before", NEWER_WEBHOOK), ("this", OLDER_WEBHOOK)]),
}
"""The version that runs first, and those that replace it, each with the order of its processes."""


@pytest.mark.parametrize(("first", "steps"), WAYS.values(), ids=WAYS)
async def test_no_pod_restarts_and_nothing_is_admitted_twice(
    new_cluster: Callable[[ClusterOptions], ControlPlane],
    earlier: Path,
    tmp_path: Path,
    first: str,
    steps: list[tuple[str, tuple[str, ...]]],
) -> None:
    versions = {"before": Version(earlier, OtherVersion(earlier).start), "this": Version(ROOT, start_forked)}
    cluster = await asyncio.to_thread(new_cluster, CONTROL_PLANE)
    service = Replicas([])
    await asyncio.to_thread(apply, cluster, versions[first].files, service.url)
    accounts = {
        name: await asyncio.to_thread(cluster.service_account, NAMESPACE, f"stowage-{name}") for name in COMMANDS
    }
    processes = StowageProcesses(accounts, tmp_path, SHORT_LEASE, launch=versions[first].launch)
    async with await Kube.connect(ClientSettings(kubeconfig=cluster.kubeconfig)) as kube, service.serving():
        service.backends = [(processes.children["webhook"], processes.webhook_port)]
        async with processes:
            with playing(processes):
                site, installation = Site(kube, "upgrade"), Installation(processes, service)
                await site.open({"b1": {"r1": 3, "r2": 3}}, quota=QUOTA)
                async with watched(site) as seen:
                    await running_ones(site)
                    await waiting_ones(site)
                    pods, admitted = await pods_of(site), await admissions(site)
                    assert (len(pods), len(admitted)) == (11, 6)
                    for step, (version, order) in enumerate(steps):
                        await asyncio.to_thread(apply, cluster, versions[version].files, service.url)
                        for name in order:
                            await installation.roll(name, versions[version])
                            await come_and_go(site, f"mixed-{step}-{name}")
                            assert of(pods, await pods_of(site)) == pods, f"after {name} of {version}"
                            assert of(admitted, await admissions(site)) == admitted, f"after {name} of {version}"
                    await late_ones_start(site, seen)
    assert not complaints(tmp_path), complaints(tmp_path)[:3]
