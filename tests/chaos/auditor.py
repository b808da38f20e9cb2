"""An auditor of the cluster's promises: what it holds true it works out from objects as the API server stores them.

It shares no code with the product, on purpose: a wrong sum there must not be wrong here too. Judged at a sample:

- no host is over-booked: neither by the pods bound to it nor by the places that admitted Workloads have there;
- no gang that requires a rack spans two, neither by its assignment nor by its bound pods;
- what runs is what is charged: the requests of a queue's bound pods that have not ended are within what the status of the
  ClusterQueue has as reserved, but for the seconds until that status is written.

A node may get the label of another rack under a gang. So a place counts in the racks that its node was in when the
assignment first named it, `SETTLING` seconds before included: a decision and its write are older than the sight of it. Where a
node was replaced since, all may lie in one rack by the labels of that time instead. At the end, `unfinished` says which gang
neither runs whole nor waits for a reason that is true.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Obj = dict[str, Any]
Places = dict[tuple[str, ...], int]
"""Pods by domain, as values of the assignment's levels."""

HOSTNAME: Final = "kubernetes.io/hostname"
_REMEMBERED: Final = 40
SETTLING: Final = 20.0
"""Seconds that a decision may be older than the sight of its assignment: longer than any pause of the storm."""


@dataclass(frozen=True)
class Labels:
    """The node labels and the resource that the audit is about."""

    rack: tuple[str, ...]
    """A rack's name: the values of these labels, widest first."""
    resource: str
    """Counted in whole units."""


@dataclass
class _Run:
    """One admission of a Workload: the racks of each host when the assignment first named it, and when it last changed."""

    required: bool
    racks: dict[str, frozenset[str]] = field(default_factory=dict)
    later: dict[str, frozenset[str]] = field(default_factory=dict)


class Auditor:
    """Copies of nodes, pods and Workloads, and what was wrong with them: `findings`, each once, in order.

    `stories`: what had become of a gang until its finding.
    """

    def __init__(self, labels: Labels) -> None:
        self.findings: list[str] = []
        self.stories: dict[str, list[str]] = {}
        self.samples = 0
        self.nodes: dict[str, Obj] = {}
        self.pods: dict[str, Obj] = {}
        self.workloads: dict[str, Obj] = {}
        self.cluster_queues: dict[str, Obj] = {}
        self.local_queues: dict[str, Obj] = {}
        self._queues: dict[str, str] = {}
        self._uncharged: dict[str, float] = {}
        self._labels = labels
        self._allocatable: dict[str, int] = {}
        self._racks: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        self._runs: dict[str, _Run] = {}
        self._stories: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))
        self._told: set[str] = set()

    # ---- what is seen

    def see(self, kind: str, obj: Obj, now: float, *, gone: bool = False) -> None:
        """One change of one object, `now` in seconds of any clock that does not go back."""
        copies = self.copies(kind)
        key = _key(obj)
        self._remember(kind, key, obj, now, gone=gone)
        if gone:
            copies.pop(key, None)
        else:
            copies[key] = obj
        if kind == "Node" and not gone:
            self._node(obj, now)
        elif kind == "Workload":
            self._workload(key, obj, now, gone)

    def copies(self, kind: str) -> dict[str, Obj]:
        """The objects of that kind by key."""
        return {
            "Node": self.nodes,
            "Pod": self.pods,
            "Workload": self.workloads,
            "ClusterQueue": self.cluster_queues,
            "LocalQueue": self.local_queues,
        }[kind]

    def _remember(self, kind: str, key: str, obj: Obj, now: float, *, gone: bool) -> None:
        """What became of a gang, for its finding."""
        if kind == "Workload":
            told = f"holds {hosts_of(obj)}" if holds(obj) and not gone else "holds nothing"
        elif kind == "Pod" and (of := gang(obj)):
            state = "gone" if gone else "going" if _goes(obj) else obj["status"].get("phase", "")
            told, key = f"pod {obj['metadata']['name']} on {obj['spec'].get('nodeName', 'no node')} {state}", of
        else:
            return
        story = self._stories[key]
        if not any(line.endswith(f" {told}") for line in story):
            story.append(f"{now:.1f} {told}")

    def _node(self, node: Obj, now: float) -> None:
        name, labels = _key(node), node["metadata"].get("labels", {})
        self._allocatable[name] = int(node["status"].get("allocatable", {}).get(self._labels.resource, 0))
        rack = "/".join(labels.get(key, "") for key in self._labels.rack)
        history = self._racks[name]
        if not history or history[-1][1] != rack:
            history.append((now, rack))

    def _workload(self, key: str, workload: Obj, now: float, gone: bool) -> None:
        if queue := workload["spec"].get("queueName"):
            self._queues[key] = f"{workload['metadata']['namespace']}/{queue}"
        if gone or not holds(workload):
            self._runs.pop(key, None)
            return
        required = any(
            (pod_set.get("topologyRequest") or {}).get("required") == self._labels.rack[-1]
            for pod_set in workload["spec"]["podSets"]
        )
        run = self._runs.setdefault(key, _Run(required))
        hosts = {host for places in hosts_of(workload).values() for host in places}
        if run.racks.keys() != hosts:
            run.later = {host: self.racks_of(host, now) for host in sorted(hosts)}
        run.racks = {host: run.racks.get(host) or run.later[host] for host in sorted(hosts)}

    def racks_of(self, node: str, now: float) -> frozenset[str]:
        """The racks that the node was in at some moment of the last `SETTLING` seconds."""
        history = self._racks.get(node, [])
        ends = [*(since for since, _ in history[1:]), now]
        return frozenset(rack for (_, rack), end in zip(history, ends, strict=True) if end >= now - SETTLING)

    # ---- what must hold

    def sample(self, now: float) -> None:
        """Judges what is there at this moment."""
        self.samples += 1
        pods = [pod for pod in self.pods.values() if live(pod)]
        bound: Counter[str] = Counter()
        for pod in pods:
            bound[pod["spec"].get("nodeName", "")] += self._amount(pod["spec"])
        self._not_over("bound", bound)
        promised: Counter[str] = Counter()
        for workload in self.workloads.values():
            promised.update(self.promised(workload))
        self._not_over("promised", promised)
        for key, run in self._runs.items():
            if not _common(run.later):
                self._one_rack(key, "is assigned to", run, run.racks)
        self._gangs(pods, now)
        self._charged(pods, now)

    def _charged(self, pods: Iterable[Obj], now: float) -> None:
        """Bound pods count in the queue of the Workload that they name, also when that Workload is gone."""
        used: Counter[str] = Counter()
        for pod in pods:
            local = self.local_queues.get(self._queues.get(gang(pod) or "", ""))
            if local is not None and pod["spec"].get("nodeName"):
                used[local["spec"]["clusterQueue"]] += self._amount(pod["spec"])
        for name, queue in self.cluster_queues.items():
            if used[name] <= (reserved := self._reserved(queue)):
                self._uncharged.pop(name, None)
            elif now - self._uncharged.setdefault(name, now) > SETTLING:
                self._tell(f"queue {name}: bound pods use {used[name]}, {reserved} charged")

    def _reserved(self, queue: Obj) -> int:
        flavors = (queue.get("status") or {}).get("flavorsReservation") or []
        totals = (one for flavor in flavors for one in flavor["resources"] if one["name"] == self._labels.resource)
        return sum(int(one["total"]) for one in totals)

    def promised(self, workload: Obj) -> Counter[str]:
        """Units of the resource by host, as its assignment has them."""
        total: Counter[str] = Counter()
        if holds(workload):
            each = {one["name"]: self._amount(one["template"]["spec"]) for one in workload["spec"]["podSets"]}
            for name, places in hosts_of(workload).items():
                for host, count in places.items():
                    total[host] += count * each[name]
        return total

    def _gangs(self, pods: Iterable[Obj], now: float) -> None:
        """Of a running gang, the hosts of its bound pods: each in the racks that it had at the admission.

        A pod on a node that is gone does not run.
        """
        hosts: defaultdict[str, set[str]] = defaultdict(set)
        for pod in pods:
            if (node := pod["spec"].get("nodeName")) in self.nodes and not _goes(pod) and (key := gang(pod)):
                hosts[key].add(node)
        for key, names in hosts.items():
            if (run := self._runs.get(key)) is not None:
                first, later = (
                    {host: known.get(host) or self.racks_of(host, now) for host in sorted(names)}
                    for known in (run.racks, run.later)
                )
                if not _common(later):
                    self._one_rack(key, "has pods on", run, first)

    def _one_rack(self, key: str, what: str, run: _Run, racks: Mapping[str, frozenset[str]]) -> None:
        if run.required and racks and not _common(racks):
            self._tell(f"gang {key} {what} {_shown(racks)}", self._stories[key])

    def _not_over(self, how: str, used: Mapping[str, int]) -> None:
        for host, amount in used.items():
            if host and amount > self._allocatable.get(host, amount):
                self._tell(f"host {host}: {amount} of {self._allocatable[host]} {how}")

    def _amount(self, spec: Obj) -> int:
        requests = (one.get("resources", {}).get("requests", {}) for one in spec["containers"])
        return sum(int(each.get(self._labels.resource, 0)) for each in requests)

    def _tell(self, finding: str, story: Iterable[str] = ()) -> None:
        if finding not in self._told:
            self._told.add(finding)
            self.findings.append(finding)
            self.stories[finding] = list(story)

    # ---- the end

    def unfinished(self) -> list[str]:
        """Of each gang that neither runs whole nor waits for a reason that is true: what is wrong with it."""
        return [f"gang {key}: {wrong}" for key, w in sorted(self.workloads.items()) if (wrong := self._wrong(key, w))]

    def _wrong(self, key: str, workload: Obj) -> str | None:
        wanted = sum(pod_set["count"] for pod_set in workload["spec"]["podSets"])
        if holds(workload):
            running = [
                pod
                for pod in self.pods.values()
                if gang(pod) == key and live(pod) and pod["status"].get("phase") == "Running" and not _goes(pod)
            ]  # fmt: skip
            return None if len(running) == wanted else f"{len(running)} of {wanted} pods run"
        said = condition(workload, "QuotaReserved")
        if said is None or said.get("status") != "False" or not said.get("message"):
            return f"waits without a reason: {said}"
        room = self._roomy_rack(workload)
        return f"waits ({said['message']}), but {room} has room" if room else None

    def _roomy_rack(self, workload: Obj) -> str | None:
        """A rack whose usable hosts have room for all pods of a workload of one pod set that requires a rack, if any."""
        (pod_set,) = workload["spec"]["podSets"]
        each, room = self._amount(pod_set["template"]["spec"]), Counter[str]()
        for host, free in self.free().items():
            room[self._racks[host][-1][1]] += free // each
        return min((rack for rack, pods in room.items() if pods >= pod_set["count"]), default=None)

    def free(self) -> dict[str, int]:
        """Units by host that takes pods: allocatable less the pods that are there and the places promised beyond them."""
        taken: Counter[str] = Counter()
        for workload in self.workloads.values():
            taken.update(self.promised(workload))
        for pod in self.pods.values():
            if live(pod) and self.workloads.get(gang(pod) or "") is None:
                taken[pod["spec"].get("nodeName", "")] += self._amount(pod["spec"])
        return {name: self._allocatable[name] - taken[name] for name, node in self.nodes.items() if usable(node)}


def _common(racks: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The racks that all hosts share."""
    return frozenset.intersection(*racks.values()) if racks else frozenset()


# ---- reading objects


def _key(obj: Obj) -> str:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _shown(racks: Mapping[str, frozenset[str]]) -> str:
    return ", ".join(f"{host} ({' or '.join(sorted(of)) or 'no rack'})" for host, of in sorted(racks.items()))


def condition(obj: Obj, kind: str) -> Obj | None:
    """The condition of that type."""
    return next((one for one in obj.get("status", {}).get("conditions", []) if one["type"] == kind), None)


def holds(workload: Obj) -> bool:
    """Whether it has its quota: admitted, or about to be, and not ended."""

    def is_true(kind: str) -> bool:
        return (condition(workload, kind) or {}).get("status") == "True"

    return is_true("QuotaReserved") and not is_true("Finished")


def _goes(pod: Obj) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def live(pod: Obj) -> bool:
    """Whether it takes room: not ended."""
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def usable(node: Obj) -> bool:
    """Whether pods without tolerations may go there."""
    return (condition(node, "Ready") or {}).get("status") == "True" and not node["spec"].get("unschedulable") and not any(
        taint["effect"] in ("NoSchedule", "NoExecute") for taint in node["spec"].get("taints", [])
    )  # fmt: skip


def gang(pod: Obj) -> str | None:
    """The key of the Workload that the pod belongs to."""
    name = pod["metadata"].get("annotations", {}).get("kueue.x-k8s.io/workload")
    return f"{pod['metadata']['namespace']}/{name}" if name else None


def hosts_of(workload: Obj) -> dict[str, dict[str, int]]:
    """By pod set, pods by hostname; only assignments that name hosts."""
    admission = workload.get("status", {}).get("admission") or {}
    found = {}
    for one in admission.get("podSetAssignments", []):
        assignment = one.get("topologyAssignment")
        if assignment and assignment["levels"][-1] == HOSTNAME:
            counts: Counter[str] = Counter()
            for values, count in places(assignment):
                counts[values[-1]] += count
            found[one["name"]] = dict(counts)
    return found


def places(assignment: Obj) -> Iterator[tuple[tuple[str, ...], int]]:
    """Domains and pods of a topologyAssignment (v1beta2): slices in which a value or count is `universal` or `individual`."""
    for part in assignment["slices"]:
        length = part["domainCount"]
        columns = [_column(level, length) for level in part["valuesPerLevel"]]
        counts = part["podCounts"]
        pods = counts["individual"] if "individual" in counts else [counts["universal"]] * length
        yield from zip(zip(*columns, strict=True), pods, strict=True)


def _column(level: Obj, length: int) -> list[str]:
    if "universal" in level:
        return [level["universal"]] * length
    named = level["individual"]
    return [f"{named.get('prefix', '')}{root}{named.get('suffix', '')}" for root in named["roots"]]
