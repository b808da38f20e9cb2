"""Every kind from Kueue itself to Stowage and back, with the kinds' own controllers.

For each kind: `old` runs and `late` waits under Kueue; under Stowage no pod restarts, a lost pod comes back, the kind is scaled
beyond its quota and back, and rolled over; `new` runs and `held` waits there. Back under Kueue nothing restarts, and what waits
is admitted once there is room. The kinds play at the same time; a kind that fails stops, and the others go on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from admission.cli.doctor import DoctorArguments, report_of
from admission.cli.main import app
from api.names import GROUP, HOSTNAME_LABEL
from hack.controlplane import kueue
from hack.controlplane.api import eventually
from hack.controlplane.build import Tools
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.nodes import node
from hack.controlplane.options import ClusterOptions
from tests.e2e.migrated_kinds import KINDS, PODS, Kind, Obj, queue_objects
from tests.e2e.test_kueue import WEBHOOKS, of_kueue
from tests.scenarios.site import BLOCK, RACK
from tests.scenarios.site import GROUP as POOL
from tests.scenarios.stage import real

__all__ = ["of_kueue"]

pytestmark = pytest.mark.long  # Kueue's manager is built the first time: two minutes of two cores
CONTROL_PLANE = ClusterOptions(jobset=True, lws=True)
QUOTA, ROOM = 5, 24
TOO_MANY = "4"
"""CPUs of a pod whose object of two waits while the quota is five."""
WITHOUT_ROOM = re.compile("insufficient|an equivalent workload recently failed")
SECONDS = 120.0


@dataclass
class Play:
    """What is seen of the kinds, and why those that failed did."""

    cluster: ControlPlane
    failures: dict[str, str] = field(default_factory=dict)
    preflight: list[str] = field(default_factory=list)
    doctor: list[tuple[str, str, str]] = field(default_factory=list)

    def each(self, step: Callable[[Kind], None]) -> None:
        """Plays a step of all kinds that have not failed, at the same time."""
        going = [kind for kind in KINDS if kind.name not in self.failures]
        with ThreadPoolExecutor(len(KINDS)) as pool:
            played = [(kind, pool.submit(step, kind)) for kind in going]
        for kind, done in played:
            if (error := done.exception()) is not None:
                self.failures[kind.name] = f"{step.__name__}: {error!r}\n{self.told(kind)}"

    # ---- what is seen

    def pods(self, name: str) -> list[Obj]:
        """Those that are not going."""
        items = self.cluster.api.get(f"{PODS}?labelSelector=app={name}")["items"]
        return [pod for pod in items if not pod["metadata"].get("deletionTimestamp")]

    def running(self, name: str) -> dict[str, str]:
        """Names by UID."""
        up = [pod["metadata"] for pod in self.pods(name) if pod["status"].get("phase") == "Running"]
        return {meta["uid"]: meta["name"] for meta in up}

    def workloads(self, kind: Kind) -> list[Obj]:
        items = self.cluster.api.get(f"/apis/{GROUP}/v1beta2/workloads")["items"]
        return [each for each in items if each["spec"]["queueName"] == kind.name]

    def admissions(self, kind: Kind) -> dict[str, Obj]:
        """By UID of the Workload."""
        admitted = [each for each in self.workloads(kind) if each.get("status", {}).get("admission")]
        return {each["metadata"]["uid"]: each["status"]["admission"] for each in admitted}

    def usage(self, kind: Kind) -> list[str]:
        status = self.cluster.api.get(f"/apis/{GROUP}/v1beta2/clusterqueues/{kind.name}").get("status", {})
        return [resource["total"] for flavor in status.get("flavorsUsage", ()) for resource in flavor["resources"]]

    def told(self, kind: Kind) -> str:
        """What there is of a kind, for a failure."""
        lines = [f"usage {self.usage(kind)}"]
        for pod in self.cluster.api.get(f"{PODS}")["items"]:
            if pod["metadata"].get("labels", {}).get("app", "").startswith(f"{kind.name}-"):
                gates = [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]
                going = "going" if pod["metadata"].get("deletionTimestamp") else ""
                marks = {**pod["metadata"]["labels"], **pod["metadata"].get("annotations", {})}
                lines.append(f"{pod['metadata']['name']}: {pod['status'].get('phase')} {going} {gates} {marks}")
        for workload in self.workloads(kind):
            said = [(c["type"], c["status"], c["message"]) for c in workload.get("status", {}).get("conditions", ())]
            lines.append(f"{workload['metadata']['name']}: {workload['metadata'].get('ownerReferences')} {said}")
        return "\n".join(lines)

    # ---- what is waited for

    def runs(self, kind: Kind, pods: int, role: str = "old") -> dict[str, str]:
        """Waits until exactly so many pods of an object run."""
        name = f"{kind.name}-{role}"

        def as_many() -> dict[str, str] | None:
            up = self.running(name)
            wanted = {f"{name}-{ordinal}" for ordinal in range(pods)}
            return up if len(up) == pods and (kind.name != "statefulset" or set(up.values()) == wanted) else None

        return eventually(f"{pods} pods of {name} run", as_many, SECONDS, 0.2) if pods else self._none(name)

    def _none(self, name: str) -> dict[str, str]:
        eventually(f"no pod of {name} runs", lambda: not self.running(name), SECONDS, 0.2)
        return {}

    def charged(self, kind: Kind, cpus: int) -> None:
        """Waits until the queue's usage is this."""
        eventually(f"{cpus} CPUs are charged to {kind.name}", lambda: self.usage(kind) == [str(cpus)], SECONDS, 0.2)

    def waits(self, kind: Kind, role: str) -> None:
        """Waits until a Workload of an object whose pods do not run says that the quota has no room for it."""

        def said() -> bool:
            own = [each for each in self.workloads(kind) if f"{kind.name}-{role}" in each["metadata"]["name"]]
            conditions = [c for each in own for c in each.get("status", {}).get("conditions", ())]
            return any(c["type"] == "QuotaReserved" and WITHOUT_ROOM.search(c["message"]) for c in conditions)

        eventually(f"the quota has no room for {kind.name}-{role}", said, SECONDS, 0.2)
        assert not self.running(f"{kind.name}-{role}")

    def comes_back(self, kind: Kind, role: str, *, at_once: bool = True) -> None:
        """A pod of an object is lost, and another one takes its place.

        Where nobody else replaces it, a user does: at once, or once the pod has ended. While both run, Kueue deletes the newer.
        """
        name = f"{kind.name}-{role}"
        uid, lost = next(iter(self.running(name).items()))
        self.cluster.api.delete(f"{PODS}/{lost}")
        if not at_once:
            eventually(f"{lost} has ended", lambda: uid not in self.active(name), SECONDS, 0.2)
        kind.replace(self.cluster.api, name, lost)
        eventually(f"{lost} has gone", lambda: uid not in self.running(name), SECONDS, 0.2)
        self.runs(kind, 2, role)

    def active(self, name: str) -> list[str]:
        """The UIDs of the pods that have not ended, also of those that are going."""
        items = self.cluster.api.get(f"{PODS}?labelSelector=app={name}")["items"]
        return [pod["metadata"]["uid"] for pod in items if pod["status"].get("phase") not in ("Failed", "Succeeded")]

    def touched(self, kind: Kind, role: str, value: str) -> None:
        """Annotates an object, which changes nothing of its pods."""
        name = f"{kind.name}-{role}"
        object_ = name if kind.is_replaced else next(iter(self.running(name).values()))
        before = self.cluster.api.get(f"{kind.path}/{object_}")
        after = self.cluster.api.merge(f"{kind.path}/{object_}", {"metadata": {"annotations": {"touched": value}}})
        assert after["spec"] == before["spec"]


def played_under_kueue(play: Play) -> dict[str, tuple[dict[str, str], dict[str, Obj]]]:
    """`old` runs, `late` waits; the pods and admissions of each kind."""
    seen: dict[str, tuple[dict[str, str], dict[str, Obj]]] = {}

    def made_under_kueue(kind: Kind) -> None:
        kind.create(play.cluster.api, f"{kind.name}-old")
        play.runs(kind, 2)
        kind.create(play.cluster.api, f"{kind.name}-late", TOO_MANY)
        play.waits(kind, "late")
        play.charged(kind, 2)
        seen[kind.name] = play.running(f"{kind.name}-old"), play.admissions(kind)

    play.each(made_under_kueue)
    told = CliRunner().invoke(app, ["doctor", "--preflight", "--kubeconfig", str(play.cluster.kubeconfig)])
    play.preflight = told.stdout.splitlines()
    return seen


def played_under_stowage(play: Play, before: dict[str, tuple[dict[str, str], dict[str, Obj]]]) -> None:
    api = play.cluster.api

    def taken_over(kind: Kind) -> None:
        play.charged(kind, 2)
        kind.create(api, f"{kind.name}-new")
        play.runs(kind, 2, "new")
        kind.create(api, f"{kind.name}-held", TOO_MANY)
        play.charged(kind, 4)
        play.touched(kind, "old", "by Stowage's users")
        pods, admitted = before[kind.name]
        assert play.running(f"{kind.name}-old") == pods, "no pod restarts"
        now = play.admissions(kind)
        assert {uid: now.get(uid) for uid in admitted} == admitted
        play.waits(kind, "late")
        play.waits(kind, "held")

    def a_pod_is_lost(kind: Kind) -> None:
        play.comes_back(kind, "old")
        play.charged(kind, 4)

    def scaled_beyond_quota_and_back(kind: Kind) -> None:
        name = f"{kind.name}-old"
        if kind.scaled is not None:
            kind.scaled(api, name, 4)
            play.runs(kind, kind.runs_of_four)
            play.charged(kind, 2 + kind.runs_of_four)
            play.runs(kind, 2, "new")
            kind.scaled(api, name, 2)
        elif kind.name == "pod":
            for number in (7, 8):
                kind.add(api, name, f"{name}-{number}")
            play.runs(kind, 3)
            play.charged(kind, 5)
            for number in (7, 8):
                api.delete(f"{PODS}/{name}-{number}")
        elif kind.name == "group":
            kind.add(api, name, f"{name}-7")
            eventually(
                "a pod beyond the group's number is deleted",
                lambda: f"{name}-7" not in [pod["metadata"]["name"] for pod in play.pods(name)],
                SECONDS,
                0.2,
            )
        play.runs(kind, 2)
        play.charged(kind, 4)

    def rolled_over(kind: Kind) -> None:
        if kind.rolled is None:
            return
        pods = play.running(f"{kind.name}-old")
        kind.rolled(api, f"{kind.name}-old")

        def others() -> bool:
            now = play.running(f"{kind.name}-old")
            return len(now) == 2 and not now.keys() & pods.keys()

        eventually(f"all pods of {kind.name}-old are others", others, SECONDS, 0.2)
        play.charged(kind, 4)

    for step in (taken_over, a_pod_is_lost, scaled_beyond_quota_and_back, rolled_over):
        play.each(step)


def played_back_under_kueue(play: Play, before: dict[str, tuple[dict[str, str], dict[str, Obj]]]) -> None:
    api = play.cluster.api

    def what_waits_is_admitted(kind: Kind) -> None:
        play.waits(kind, "held")
        path = f"/apis/{GROUP}/v1beta2/clusterqueues/{kind.name}"
        groups = api.get(path)["spec"]["resourceGroups"]
        groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = str(ROOM)
        api.merge(path, {"spec": {"resourceGroups": groups}})
        play.runs(kind, 2, "late")
        play.runs(kind, 2, "held")
        play.charged(kind, 20)

    def nothing_restarts(kind: Kind) -> None:
        for role in ("old", "new"):
            play.touched(kind, role, "by Kueue's users")
        pods, admitted = before[kind.name]
        assert pods == both(play, kind)
        now = play.admissions(kind)
        assert {uid: now.get(uid) for uid in admitted} == admitted

    def a_pod_is_lost_again(kind: Kind) -> None:
        for role in ("old", "new"):
            play.comes_back(kind, role, at_once=False)
        play.charged(kind, 20)

    for step in (what_waits_is_admitted, nothing_restarts, a_pod_is_lost_again):
        play.each(step)


def both(play: Play, kind: Kind) -> dict[str, str]:
    """The pods of `old` and `new`."""
    return {**play.running(f"{kind.name}-old"), **play.running(f"{kind.name}-new")}


def to_stowage(cluster: ControlPlane) -> None:
    """As docs/guides/kueue.md says."""
    for kind in ("mutating", "validating"):
        cluster.api.delete(f"{WEBHOOKS}/{kind}webhookconfigurations/kueue-{kind}-webhook-configuration")
    cluster.kubectl("-n", kueue.NAMESPACE, "scale", "deployment", "kueue-controller-manager", "--replicas=0")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", "config/development")


@pytest.fixture(scope="module")
def played(cluster: ControlPlane, of_kueue: Tools, tmp_path_factory: pytest.TempPathFactory) -> Play:
    """All of it."""
    play, folder = Play(cluster), tmp_path_factory.mktemp("kinds")
    labels = {BLOCK: "b1", RACK: "r1", POOL: "machines"}
    cluster.add_nodes(node(f"host-{n}", labels) for n in range(8))
    with kueue.running(cluster, of_kueue):
        queues = queue_objects((BLOCK, RACK, HOSTNAME_LABEL), {POOL: "machines"}, QUOTA)
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(queues))
        of_first = played_under_kueue(play)
    to_stowage(cluster)
    asyncio.run(under_stowage(play, of_first, folder))
    of_second = {kind.name: (both(play, kind), play.admissions(kind)) for kind in KINDS}
    words = ["uninstall", "--keep-crds", "--yes", "--kubeconfig", str(cluster.kubeconfig)]
    away = CliRunner().invoke(app, words)
    assert away.exit_code == 0, away.output
    with kueue.running(cluster, of_kueue):
        played_back_under_kueue(play, of_second)
    return play


async def under_stowage(play: Play, before: dict[str, tuple[dict[str, str], dict[str, Obj]]], folder: Path) -> None:
    async with real(play.cluster, folder, install=False):
        await asyncio.to_thread(played_under_stowage, play, before)
        report = await report_of(DoctorArguments(kubeconfig=play.cluster.kubeconfig))
    play.doctor = [(check.name, each.object, each.what) for check, found in report.findings for each in found]


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_a_kind_there_and_back(played: Play, kind: str) -> None:
    assert kind not in played.failures, played.failures[kind]


def test_the_preflight_knows_each_kind(played: Play) -> None:
    verdict, *fates = played.preflight
    assert verdict == "ready to migrate: 6 checks passed, 0 findings"
    assert [fate.partition("waiting:")[0].strip() for fate in fates] == [
        "Job: 1 with quota, 1",
        "JobSet: 1 with quota, 1",
        "LeaderWorkerSet: 1 with quota, 1",
        "Pod: 4 with quota, 4",
        "StatefulSet: 1 with quota, 1",
        "pod group: 1 with quota, 1",
    ]


def test_doctor_finds_nothing_after_the_migration(played: Play) -> None:
    assert played.doctor == []
