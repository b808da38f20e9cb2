"""The load of Kueue's own performance test on virtual time: 15,000 jobs over 640 nodes, sizes in simulate.json.

    python -m tests.bench.simulate [--profile Compatible] [--json FILE] [--top 25]

Jobs go the whole way of `stowage simulate`: manifests, webhook rules, adapters, feed, cycles. Prints the wall time of loading
and of playing, the use of capacity and the mean time to admission by class beside Kueue's. Kueue's figures contain its
API server and are measured on a real clock; here only the waiting for quota and room counts. What Kueue's load calls
balanced are slices that require a rack each. `--top`: with a profile of where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from admission.engine.model import PlacementOptions, Profile
from admission.simulation.result import SimulationResult, figures
from admission.simulation.run import simulate
from admission.webhook.rules.review_rules import ReviewRules
from admission.world.documents import Document
from admission.world.files import from_documents
from admission.world.rules import WorldRules
from admission.world.world import World
from api import names

LOAD: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text())
BLOCK, RACK = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"
NODE_GROUP = "tas-node-group"
KUEUE = names.API_VERSION


def _object(version: str, kind: str, name: str, namespace: str | None = None, **fields: Any) -> Document:
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
    return Document("the load", {"apiVersion": version, "kind": kind, "metadata": meta, **fields})


def cluster(load: dict[str, Any]) -> Iterator[Document]:
    """Nodes, topology, flavor, queues, classes of priority."""
    levels = [{"nodeLabel": label} for label in (BLOCK, RACK, names.HOSTNAME_LABEL)]
    yield _object(KUEUE, "Topology", "default", spec={"levels": levels})
    yield _object(KUEUE, "ResourceFlavor", "tas", spec={"nodeLabels": {NODE_GROUP: "tas"}, "topologyName": "default"})
    size = load["nodes"]
    amounts = {key: size[key] for key in ("cpu", "memory", "pods")}
    for block in range(size["blocks"]):
        for rack in range(size["racks"]):
            for host in range(size["hosts"]):
                labels = {NODE_GROUP: "tas", BLOCK: f"b{block}", RACK: f"b{block}-r{rack}"}
                name = f"b{block}-r{rack}-h{host:02d}"
                yield _object("v1", "Node", name, metadata={"labels": labels}, status={"allocatable": amounts})
    for name, of in load["classes"].items():
        yield _object(KUEUE, "WorkloadPriorityClass", name, value=of["priority"])
    for cohort, queue in queues(load):
        quota = {"name": "cpu", "nominalQuota": load["nominal"], "borrowingLimit": load["borrowing"]}
        groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "tas", "resources": [quota]}]}]
        spec = {
            "cohortName": cohort,
            "namespaceSelector": {},
            "resourceGroups": groups,
            "preemption": load["preemption"],
        }
        yield _object(KUEUE, "ClusterQueue", queue, spec=spec)
        yield _object(KUEUE, "LocalQueue", queue, "default", spec={"clusterQueue": queue})


def queues(load: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Cohort and ClusterQueue of each."""
    for cohort in range(load["cohorts"]):
        for queue in range(load["queues"]):
            yield f"cohort-{cohort}", f"cohort-{cohort}-queue-{queue}"


def jobs(load: dict[str, Any]) -> Iterator[Document]:
    """The jobs of all queues; each says when it comes and how long it runs."""
    for _, queue in queues(load):
        for size, of in load["classes"].items():
            for mode, count, slices in of["sets"]:
                for number in range(count):
                    yield _job(f"{queue}-{size}-{mode}-{number:03d}", queue, size, of, mode, slices, number)


def _job(name: str, queue: str, size: str, of: dict[str, Any], mode: str, slices: int, number: int) -> Document:
    asked = {
        "required": {names.REQUIRED_TOPOLOGY: RACK},
        "preferred": {names.PREFERRED_TOPOLOGY: RACK},
        "sliced": {names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: str(slices)},
    }[mode]
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": of["cpu"]}}}
    template = {
        "metadata": {"annotations": asked},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    meta = {
        "labels": {names.QUEUE_NAME_LABEL: queue, names.PRIORITY_CLASS_LABEL: size},
        "annotations": {
            names.SIMULATED_ARRIVAL: f"{(number + 1) * of['every_ms']}ms",
            names.SIMULATED_DURATION: f"{of['seconds']}s",
        },
    }
    spec = {"parallelism": of["pods"], "completions": of["pods"], "completionMode": "Indexed", "template": template}
    return _object("batch/v1", "Job", name, "default", metadata=meta, spec=spec)


def world(load: dict[str, Any], options: PlacementOptions) -> World:
    """All of it, loaded."""
    made = from_documents([*cluster(load), *jobs(load)], WorldRules(webhook=ReviewRules(placement=options)))
    for fault in made.faults:
        print(f"FAULT {fault}")
    return made


def show(load: dict[str, Any], outcome: SimulationResult, seconds: dict[str, float]) -> dict[str, Any]:
    """Prints the figures; tells them."""
    by_class = {name: of["priority"] for name, of in load["classes"].items()}
    got = {
        name: figures(run for run in outcome.runs.values() if run.workload.priority == priority)
        for name, priority in by_class.items()
    }
    wall = seconds["load"] + seconds["play"]
    print(
        f"loading {seconds['load']:.1f} s, playing {seconds['play']:.1f} s: {wall:.1f} s (aim {load['aims']['wall_s']})"
    )
    print(f"of that {seconds['cpu']:.1f} s on a processor")
    print(f"virtual time {outcome.ended:.1f} s; {outcome.cycles} cycles, {outcome.decisions} decisions")
    for line in outcome.use:
        most = line.quota if line.nodes is None else min(line.quota, line.nodes)
        print(
            f"use of {line.resource}: {line.share:.1%} of {most / 1000:g} on average, {line.highest / 1000:g} at most"
        )
    kueue = load["kueue"]["mean s to admission"]
    for name, found in sorted(got.items(), key=lambda item: -by_class[item[0]]):
        print(
            f"{name:>7}: {found.admitted} of {found.count} admitted; time to admission mean {found.mean:.1f} s, "
            f"median {found.median:.1f}, 95 % {found.p95:.1f} (Kueue, mean {kueue[name]})"
        )
    return {
        "seconds": seconds,
        "virtual": outcome.ended,
        "use": [line.share for line in outcome.use],
        "mean": {name: found.mean for name, found in got.items()},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default=Profile.EXACT.value, choices=[profile.value for profile in Profile])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-preemption", action="store_true", help="queues without preemption policies")
    parser.add_argument("--top", type=int, default=0)
    given = parser.parse_args(arguments)
    options = replace(PlacementOptions(), profile=Profile(given.profile))
    load = {**LOAD, "preemption": {}} if given.no_preemption else LOAD
    watch = cProfile.Profile() if given.top else None
    if watch is not None:
        watch.enable()
    begun, spent = perf_counter(), process_time()
    loaded = world(load, options)
    ready = perf_counter()
    outcome = simulate(loaded)
    done = perf_counter()
    if watch is not None:
        watch.disable()
        pstats.Stats(watch).sort_stats("tottime").print_stats(given.top)
    told = show(load, outcome, {"load": ready - begun, "play": done - ready, "cpu": process_time() - spent})
    if given.json:
        given.json.write_text(json.dumps(told, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
