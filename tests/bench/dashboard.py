"""The dashboard at 15,000 hosts: CPU time of its first answers and of a change, and the longest step that holds the loop.

`python -m tests.bench.dashboard [--hosts N]`; the process's own time, without the network.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time

from admission.dashboard.cluster import of_objects
from admission.dashboard.dashboard import Dashboard, Facts
from admission.dashboard.mcp.tools import TOOLS
from admission.dashboard.viewer import LocalUser, Permissions
from tests.admission.dashboard.small_cluster import SmallCluster


async def _longest_step(gaps: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0)
        gaps.append(time.perf_counter() - began)


async def measure(hosts: int) -> None:
    """Prints one line for each figure."""
    cluster, viewer = SmallCluster(), LocalUser()
    for number in range(hosts):
        cluster.node(f"h{number:05d}", f"r{number // 16:04d}")
    for number in range(0, hosts, 10):
        cluster.run("team", "lq", f"job-{number}", f"h{number:05d}", 4)
    dashboard = Dashboard(of_objects(cluster.objects, cluster.world.state), Facts("0", "bench"))
    began = time.process_time()
    await dashboard.renew()
    gc.freeze()  # as the process does then
    print(f"read the structure: {time.process_time() - began:.3f} s")
    for text in ("first tree", "the same again"):
        began = time.process_time()
        size = len(await dashboard.tree(viewer, "tas"))
        print(f"{text}: {(time.process_time() - began) * 1000:.1f} ms, {size / 1024:.0f} KiB")
    for text in ("list of the workloads", "the same again"):
        began = time.process_time()
        rows = len((await dashboard.workloads(viewer, {}))["items"])
        print(f"{text}: {(time.process_time() - began) * 1000:.1f} ms, {rows} workloads")
    for name in ("occupancy", "workloads"):
        began = time.process_time()
        size = len((await TOOLS[name].call(dashboard, viewer, {}))[1])
        print(f"tool {name}: {(time.process_time() - began) * 1000:.1f} ms, {size} bytes")
    with dashboard.clients.joined("bench") as queue:
        cluster.run("team", "lq", "late", "h00001", 2)
        began = time.process_time()
        await dashboard.renew()
        batch = queue.get_nowait()
        size = len(batch.encoded(Permissions())) if batch is not None else 0
        print(f"event of a change: {(time.process_time() - began) * 1000:.1f} ms, {size} bytes")
        cluster.node("h00002", "r0000", more={"beta.kubernetes.io/os": "linux"})
        cluster.node("h00003", "r0000", cordoned=True)
        began = time.process_time()
        await dashboard.renew()
        batch = queue.get_nowait()
        size = len(batch.encoded(Permissions())) if batch is not None else 0
        print(
            f"event of a cordon beside another node's label: {(time.process_time() - began) * 1000:.1f} ms, {size} bytes"
        )
    gaps: list[float] = []
    watching = asyncio.create_task(_longest_step(gaps))
    cluster.node("new", "r0000")
    await dashboard.renew()
    await asyncio.sleep(dashboard.trees.due_in() or 0.0)
    gaps.clear()
    await dashboard.renew()
    watching.cancel()
    print(f"longest step while a new node's tree is read: {max(gaps) * 1000:.0f} ms")


def main() -> None:
    """Reads the arguments and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=15_000)
    asyncio.run(measure(parser.parse_args().hosts))


if __name__ == "__main__":
    main()
