"""A made-up cluster in the shapes of the dashboard's answers, of any size, the same for the same seed.

For the page's tests and for work on the page without a control plane. docs/http-api.md describes the answers.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

GPU = "nvidia.com/gpu"
RESOURCES = ["cpu", "memory", GPU]
HOST = [128_000, 1024 << 30, 8]
HOSTS_OF_RACK, RACKS_OF_BLOCK = 16, 20
FLAVOR, TOPOLOGY = "gpu-h100", "datacenter"
LEVELS = ["cloud.example.com/topology-block", "cloud.example.com/topology-rack", "kubernetes.io/hostname"]
RESERVED_RACK = 13
RESERVATION = {"name": "rack-13-firmware", "start": "2030-03-01T06:00:00Z", "end": "2030-03-01T10:00:00Z"}
QUEUES = ["research", "training-large", "training-small", "inference", "evaluation", "batch", "robotics", "speech"]
TEAMS = ["team-a", "team-b", "vision", "language"]
NOW = "2026-11-25T20:00:00Z"
WAIT = (
    'couldn\'t assign flavors to pod set main: topology "datacenter" allows to fit only 12 out of 16 pod(s). '
    'Total nodes: {hosts}; excluded: resource "nvidia.com/gpu": {out}'
)


HINT = (
    "flavor gpu-h100: rack b01/r023 holds 12 of 16 pods: nvidia.com/gpu: 96 free, 32 short; would be admitted if main required "
    "cloud.example.com/topology-block instead of cloud.example.com/topology-rack, or if main had 12 pods instead of 16"
)


def workload(number: int, rng: Random, pods: int, state: str = "Admitted") -> dict[str, Any]:
    """Returns the row of one workload."""
    name = f"{rng.choice(['llm', 'vit', 'eval', 'sweep', 'asr', 'sim'])}-{number:04d}"
    return {
        "namespace": rng.choice(TEAMS),
        "name": f"job-{name}-{number * 7919 % 65521:05x}",
        "job": f"Job {name}",
        "queue": "main",
        "clusterQueue": rng.choice(QUEUES),
        "priority": rng.choice([0, 0, 0, 100, 1000]),
        "pods": pods,
        "state": state,
        "reason": state,
        "message": "The workload is admitted",
        "hint": "",
        "since": NOW,
        "created": f"2026-11-25T{10 + number % 10:02d}:{number % 60:02d}:00Z",
        "started": NOW if state == "Admitted" else None,
        "ranBefore": 0,
        "gpus": 0,
        "notes": [],
        "position": None,
        "heldHosts": 0,
        "earliestStart": None,
        "expectedStart": None,
    }


def expected(number: int, share: float = 1.0) -> str | None:
    """Returns the expected start of every third workload, within two hours from now, or a share of the time until then."""
    if number % 3:
        return None
    return (datetime.now(UTC) + timedelta(minutes=(number * 7 % 120 + 1) * share)).strftime("%Y-%m-%dT%H:%M:%SZ")


class MadeCluster:
    """`hosts` hosts in racks of 16 and blocks of 20 racks, most of them used, and `waiting` workloads that wait."""

    def __init__(self, hosts: int, waiting: int = 57, seed: int = 1) -> None:
        rng = Random(seed)
        self.version = 1
        self.names = [f"node-{number:05d}" for number in range(hosts)]
        racks = -(-hosts // HOSTS_OF_RACK)
        blocks = -(-racks // RACKS_OF_BLOCK)
        self.domains: list[list[Any]] = [[f"b{block:02d}", -1] for block in range(blocks)]
        self.domains += [[f"r{rack:03d}", rack // RACKS_OF_BLOCK] for rack in range(racks)]
        self.domain = [blocks + number // HOSTS_OF_RACK for number in range(hosts)]
        self.total = [list(HOST) for _ in range(hosts)]
        self.used = [[0, 0, 0] for _ in range(hosts)]
        self.foreign = [[2_000, 4 << 30, 0] for _ in range(hosts)]
        self.held = [[0, 0, 0] for _ in range(hosts)]
        self.state = [0] * hosts
        self.why: dict[str, str] = {}
        self.rows: dict[str, dict[str, Any]] = {}
        self.runs: list[list[tuple[str, str, int, list[int]]]] = [[] for _ in range(hosts)]
        self.reservations = [RESERVATION]
        self.held_for: dict[int, list[str]] = {}
        self.reserved = {host: [0] for host in range(hosts) if host // HOSTS_OF_RACK == RESERVED_RACK}
        self._fill(rng)
        for number in range(waiting):
            self._wait(10_000 + number, rng, hosts)

    def _fill(self, rng: Random) -> None:
        hosts, at, number = len(self.names), 0, 0
        while at < hosts:
            draw = rng.random()
            if draw < 0.01:
                self.state[at] = 2
                self.why[str(at)] = "NotReady since 19:42: Kubelet stopped posting node status."
                at += 1
            elif draw < 0.016:
                self.state[at] = 1
                self.why[str(at)] = "cordoned"
                at += 1
            elif draw < 0.03:
                self.held[at] = [0, 0, 8]
                at += 1
            elif draw < 0.06:
                self.foreign[at] = [40_000, 200 << 30, rng.choice([0, 1, 2, 4])]
                at += 1
            elif draw < 0.16:
                at += rng.choice([1, 1, 2, 5])
            else:
                span = min(rng.choice([1, 1, 2, 4, 8, 16, 16, 32, 64]), hosts - at)
                whole = span > 1 or rng.random() < 0.6
                for row in self._jobs(number, span, whole, rng):
                    number += 1
                    self._place(row, at, span, 8 if whole else 2)
                at += span

    def leave(self, host: int, waiting: str) -> None:
        """Lets all that runs on a host leave it for a workload that waits: it counts as held."""
        self.held_for[host] = [waiting]
        self.held[host], self.used[host] = self.used[host], [0, 0, 0]
        self.runs[host] = [(key, queue, pods, [0, 0, 0]) for key, queue, pods, _ in self.runs[host]]
        self.rows[waiting]["heldHosts"] += 1

    def _jobs(self, number: int, span: int, whole: bool, rng: Random) -> list[dict[str, Any]]:
        count = 1 if whole else rng.choice([1, 2, 3, 4])
        return [workload(number + extra, rng, span) for extra in range(count)]

    def _place(self, row: dict[str, Any], at: int, span: int, gpus: int) -> None:
        key = f"{row['namespace']}/{row['name']}"
        self.rows[key] = row
        row["gpus"] += gpus * span
        amounts = [gpus * 12_000, gpus * (100 << 30), gpus]
        for host in range(at, at + span):
            self.used[host] = [have + more for have, more in zip(self.used[host], amounts, strict=True)]
            self.runs[host].append((key, row["clusterQueue"], 1, amounts))

    def _wait(self, number: int, rng: Random, hosts: int) -> None:
        row = workload(number, rng, rng.choice([4, 16, 16, 64, 256]), "Pending")
        row["reason"] = rng.choice(
            ["TopologyPlacementFailed", "QuotaExceeded", "TopologyPlacementFailed", "Preempting"]
        )
        row["message"] = WAIT.format(hosts=hosts, out=hosts - 12)
        row["hint"] = HINT if number % 2 else ""
        row["position"] = number % 9 + 1
        row["earliestStart"], row["expectedStart"] = expected(number, 0.4), expected(number)
        self.rows[f"{row['namespace']}/{row['name']}"] = row

    def tree(self) -> dict[str, Any]:
        """Returns the answer of `topology/{flavor}`."""
        keys = {key: number for number, key in enumerate(self.rows)}
        runs = [(host, *run) for host, found in enumerate(self.runs) for run in found]
        columns = range(len(RESOURCES))
        return {
            "flavor": FLAVOR,
            "topology": TOPOLOGY,
            "levels": LEVELS,
            "resources": RESOURCES,
            "version": self.version,
            "domains": self.domains,
            "hosts": {
                "name": self.names,
                "domain": self.domain,
                "state": self.state,
                "why": self.why,
                "reserved": {str(host): held for host, held in self.reserved.items()},
                "heldFor": {str(host): [keys[key] for key in waiting] for host, waiting in self.held_for.items()},
                **{
                    name: [[host[column] for host in amounts] for column in columns]
                    for name, amounts in self.amounts().items()
                },
            },
            "workloads": [[key, row["clusterQueue"]] for key, row in self.rows.items()],
            "reservations": self.reservations,
            "runs": {
                "host": [run[0] for run in runs],
                "workload": [keys[run[1]] for run in runs],
                "pods": [run[3] for run in runs],
                "amounts": [[run[4][column] for run in runs] for column in columns],
            },
        }

    def amounts(self) -> dict[str, list[list[int]]]:
        """Returns the amounts of all hosts by what they are."""
        return {"total": self.total, "used": self.used, "foreign": self.foreign, "held": self.held}

    def change(self, hosts: list[int]) -> dict[str, Any]:
        """Returns the event that says what these hosts have now."""
        self.version += 1
        return {
            "flavor": FLAVOR,
            "version": self.version,
            "hosts": [
                {
                    "i": host,
                    "state": self.state[host],
                    "why": self.why.get(str(host), ""),
                    "runs": self.runs[host],
                    "reserved": [self.reservations[one] for one in self.reserved.get(host, [])],
                    "heldFor": [(key, self.rows[key]["clusterQueue"]) for key in self.held_for.get(host, [])],
                    **{name: amounts[host] for name, amounts in self.amounts().items()},
                }
                for host in hosts
            ],
        }

    def flavors(self) -> dict[str, Any]:
        """Returns the answer of `topology`."""
        return {"flavors": [{"name": FLAVOR, "topology": TOPOLOGY, "levels": LEVELS, "hosts": len(self.names)}]}

    def queues(self) -> dict[str, Any]:
        """Returns the answer of `queues`."""
        nominal = max(8, len(self.names) // len(QUEUES)) * 8
        found = []
        for number, name in enumerate(QUEUES):
            rows = [row for row in self.rows.values() if row["clusterQueue"] == name]
            pending = [row for row in rows if row["state"] == "Pending"]
            used = nominal * (70 + number * 11 % 60) // 100
            quotas = [
                {
                    "flavor": FLAVOR,
                    "resource": resource,
                    "nominal": nominal * unit,
                    "used": used * unit,
                    "borrowed": max(0, used - nominal) * unit,
                    "lent": nominal // 5 * unit if used < nominal * 0.8 else 0,
                    "pending": sum(row["pods"] for row in pending) * 8 * unit,
                    "borrowingLimit": None,
                    "lendingLimit": None,
                }
                for resource, unit in ((GPU, 1), ("cpu", 12_000), ("memory", 100 << 30))
            ]
            found.append(
                {
                    "name": name,
                    "cohort": "all" if number < 5 else "",
                    "active": name != "speech",
                    "message": 'references missing ResourceFlavor "gpu-b200"' if name == "speech" else "",
                    "strategy": "StrictFIFO" if name == "inference" else "BestEffortFIFO",
                    "pending": len(pending),
                    "admitted": len(rows) - len(pending),
                    "quotas": quotas,
                    "localQueues": [
                        {
                            "namespace": team,
                            "name": "main",
                            "pending": sum(row["namespace"] == team for row in pending),
                            "admitted": 0,
                        }
                        for team in TEAMS
                    ],
                }
            )
        return {"clusterQueues": found, "cohorts": [{"name": "all", "parent": "", "quotas": []}]}

    def detail(self, key: str) -> dict[str, Any]:
        """Returns the answer of `workloads/{namespace}/{name}`. Raises KeyError if there is none."""
        row = self.rows[key]
        hosts = [number for number, runs in enumerate(self.runs) if any(run[0] == key for run in runs)]
        places = [{"flavor": FLAVOR, "host": self.names[host], "pods": 1, "podSet": "main"} for host in hosts]
        moment = {"lastTransitionTime": row["created"], "message": row["message"]}
        waits = row["state"] == "Pending"
        return {
            **row,
            "explanation": explanation(key, row) if waits else None,
            "conditions": [
                {"type": "QuotaReserved", "status": "False" if waits else "True", "reason": row["reason"], **moment},
                *([] if waits else [{"type": "Admitted", "status": "True", "reason": "Admitted", **moment}]),
            ],
            "podList": [
                {"name": f"{row['name']}-{place}", "host": self.names[host], "phase": "Running", "podSet": "main"}
                for place, host in enumerate(hosts)
            ],
            "places": places,
        }


def explanation(key: str, row: dict[str, Any]) -> dict[str, Any]:
    """Returns an explanation of a wait, as the engine's `to_wire` gives it."""
    shortage = {
        "resource": GPU,
        "asked": "128",
        "free": "96",
        "pods": 12,
        "short": "32",
        "takers": [
            {"kind": "Workload", "name": "team-a/job-llm-0003-05cc5", "amount": "64", "node": ""},
            {"kind": "Pod", "name": "kube-system/profiler-x2k", "amount": "4", "node": "node-00012"},
        ],
    }
    level = {"unit": "pods", "wanted": 16, "torn": [], "exclusions": [], "fragmented": False, "leader": True}
    return {
        "workload": key,
        "clusterQueue": row["clusterQueue"],
        "verdict": "Waits",
        "reason": row["reason"],
        "message": row["message"],
        "headline": HINT,
        "codes": [row["reason"], "InsufficientResource", "AdmittedWorkloads"],
        "flavors": [
            {
                "flavor": FLAVOR,
                "topology": TOPOLOGY,
                "code": None,
                "message": "",
                "quota": [
                    {
                        "resource": GPU,
                        "asked": "128",
                        "nominal": "1000",
                        "available": "400",
                        "most": "1000",
                        "short": "0",
                        "users": [],
                        "workloads": [],
                    }
                ],
                "podSets": [
                    {
                        "podSets": ["main"],
                        "message": row["message"],
                        "levels": [
                            {**level, "level": LEVELS[0], "domain": ["b01"], "fits": 16, "everywhere": 512}
                            | {"asked": False, "shortages": []},
                            {**level, "level": LEVELS[1], "domain": ["b01", "r023"], "fits": 12, "everywhere": 512}
                            | {"asked": True, "shortages": [shortage]},
                        ],
                    }
                ],
            }
        ],
        "remedies": [
            {"text": "main required cloud.example.com/topology-block instead of cloud.example.com/topology-rack"},
            {"text": "main had 12 pods instead of 16"},
            {"text": "team-a/job-llm-0003-05cc5 finished"},
        ],
        "taken": [],
        "ahead": [],
        "behind": [],
        "victims": [],
        "starts": None,
        "cause": "",
        "forecast": "",
        "complete": True,
    }
