"""The webhook under load: reviews answered a second, and how long the slowest wait, by one process over TLS.

    python -m tests.bench webhook [--creations 500000]

The webhook runs for real beside an embedded API server, with the certificate it makes for itself. As many clients as
loads.json says send AdmissionReviews of jobs and Workloads over kept connections, each its next one as soon as the last
was answered, from this process and so from the same cores.

`--creations`: so many pods with a queue, each of another name, over 64 connections; prints failures, waits and memory.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
import tempfile
import time
from array import array
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop

from admission.cli.local_cluster.embedded import NAMESPACE as STOWAGE
from admission.cli.local_cluster.install import install
from admission.cli.local_cluster.processes import StowageProcesses
from api import names
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.kube.client import Kube
from api.kube.settings import ClientSettings
from tests.bench.loads import loads
from tests.bench.measure import cost
from tests.builders import pod_template

RACK = "example.com/rack"
Load = dict[str, Any]


def run(creations: int = 0) -> None:
    """Prints one line a kind of review, or one for a storm of creations."""
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder:
        if creations:
            uvloop.run(_storm(Path(folder), creations))
        else:
            asyncio.run(_measure(Path(folder), loads("webhook")))


async def _measure(folder: Path, load: Load) -> None:
    async with _webhook(folder) as processes:
        connector = aiohttp.TCPConnector(ssl=False, limit=load["concurrent"])
        async with aiohttp.ClientSession(processes.webhook_url, connector=connector) as session:
            for name in load["reviews"]:
                path, body = REVIEWS[name]
                await _send(session, path, body, load["warm_up"], load["concurrent"])
                before, began = cost(processes.pids[0]).cpu, time.perf_counter()
                waits = await _send(session, path, body, load["requests"], load["concurrent"])
                seconds, cpu = time.perf_counter() - began, cost(processes.pids[0]).cpu - before
                _tell(path, load, sorted(waits), seconds, cpu)


@asynccontextmanager
async def _webhook(folder: Path) -> AsyncIterator[StowageProcesses]:
    tokens = {"webhook": f"system:serviceaccount:{STOWAGE}:stowage-webhook"}
    async with EmbeddedServer(EmbeddedSettings(tokens=tokens)) as server:
        own = server.kubeconfig(folder / "webhook.kubeconfig", token="webhook")
        processes = StowageProcesses({"webhook": own}, folder)
        kubeconfig = server.kubeconfig(folder / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as kube:
            await install(kube, processes.webhook_url)
        async with processes:
            yield processes


async def _storm(folder: Path, creations: int) -> None:
    async with _webhook(folder) as processes:
        pid, numbers, waits, failed = processes.pids[0], itertools.count(), array("f"), array("q")
        before, began = cost(pid), time.perf_counter()
        clients = (_create(processes.webhook_port, numbers, creations, waits, failed) for _ in range(_CONNECTIONS))
        await asyncio.gather(*clients)
        seconds, after = time.perf_counter() - began, cost(pid)
    ordered = sorted(waits)
    p50, p99, longest = (ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000 for part in (0.5, 0.99, 1.0))
    print(
        f"SUMMARY webhook storm: {creations} creations over {_CONNECTIONS} connections, {len(failed)} failed, "
        f"{creations / seconds:.0f}/s, p50 {p50:.1f} p99 {p99:.1f} most {longest:.1f} ms, "
        f"CPU {(after.cpu - before.cpu) / creations * 1000:.2f} ms each, "
        f"memory {before.resident:.0f} to {after.resident:.0f}, highest {after.highest:.0f} MiB"
    )


async def _create(port: int, numbers: Iterator[int], creations: int, waits: array[float], failed: array[int]) -> None:
    """One connection: the next creation when the last is answered."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    while (number := next(numbers)) < creations:
        body = _POD.replace(b"NUMBER", b"%09d" % number)
        began = time.perf_counter()
        writer.write(_HEAD % len(body) + body)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        answer = await reader.readexactly(length)
        waits.append(time.perf_counter() - began)
        if b'"allowed":true' not in answer:
            failed.append(number)
    writer.close()


async def _send(session: aiohttp.ClientSession, path: str, body: bytes, requests: int, concurrent: int) -> list[float]:
    """Seconds of each request. Raises RuntimeError for an answer that is not "allowed"."""
    waits: list[float] = []
    numbers = iter(range(requests))

    async def client(numbers: Iterator[int]) -> None:
        for _ in numbers:
            began = time.perf_counter()
            async with session.post(path, data=body, headers={"Content-Type": "application/json"}) as answer:
                data = await answer.read()
            waits.append(time.perf_counter() - began)
            if answer.status != 200 or b'"allowed":true' not in data:
                raise RuntimeError(f"{path}: {answer.status} {data[:300]!r}")

    await asyncio.gather(*itertools.starmap(client, [(numbers,)] * concurrent))
    return waits


def _tell(path: str, load: Load, waits: list[float], seconds: float, cpu: float) -> None:
    def quantile(part: float) -> float:
        return waits[min(len(waits) - 1, int(len(waits) * part))] * 1000

    print(
        f"SUMMARY webhook {path}: {len(waits) / seconds:.0f} requests/s at {load['concurrent']} concurrent, "
        f"p50 {quantile(0.5):.1f} p99 {quantile(0.99):.1f} ms, CPU {cpu / len(waits) * 1000:.2f} ms a request"
    )


# ---- what is sent


def _review(resource: str, kind: str, obj: Load) -> bytes:
    group, _, version = obj["apiVersion"].rpartition("/")
    request = {
        "uid": "00000000-0000-4000-8000-000000000001",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": resource},
        "name": obj["metadata"]["name"],
        "namespace": "team",
        "operation": "CREATE",
        "userInfo": {"username": "somebody"},
        "object": obj,
        "oldObject": None,
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def _asking() -> Load:
    template = pod_template(cpu="4", gpus=1)
    return {**template, "metadata": {"annotations": {names.REQUIRED_TOPOLOGY: RACK}}}


def _meta(**more: Any) -> Load:
    return {"name": "train", "namespace": "team", **more}


def _job() -> Load:
    spec = {"parallelism": 32, "completions": 32, "completionMode": "Indexed", "template": _asking()}
    meta = _meta(labels={names.QUEUE_NAME_LABEL: "lq"})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def _jobset() -> Load:
    child = {"parallelism": 8, "completions": 8, "completionMode": "Indexed", "template": _asking()}
    replicated = [{"name": name, "replicas": 4, "template": {"spec": child}} for name in ("driver", "workers")]
    meta = _meta(labels={names.QUEUE_NAME_LABEL: "lq"})
    spec = {"replicatedJobs": replicated}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta, "spec": spec}


def _workload() -> Load:
    pod_set = {"name": "main", "count": 32, "template": _asking(), "topologyRequest": {"required": RACK}}
    spec = {"queueName": "lq", "podSets": [pod_set]}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": _meta(), "spec": spec}


def _pod() -> Load:
    meta = {**_meta(labels={names.QUEUE_NAME_LABEL: "lq"}), "name": "pod-NUMBER"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_template(cpu="1")["spec"]}


_CONNECTIONS = 64
_POD = _review("pods", "Pod", _pod())
_HEAD = b"POST /mutate-core-v1-pod HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
REVIEWS = {
    "job": ("/mutate-batch-v1-job", _review("jobs", "Job", _job())),
    "jobset": ("/mutate-jobset-x-k8s-io-v1alpha2-jobset", _review("jobsets", "JobSet", _jobset())),
    "workload": ("/validate-kueue-x-k8s-io-v1beta2-workload", _review("workloads", "Workload", _workload())),
}
