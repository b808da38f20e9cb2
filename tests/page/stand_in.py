"""A stand-in for the dashboard process: the built page, and a made-up cluster's answers. For work on the page and its tests.

`python -m tests.page.stand_in [--hosts N] [--port N]` serves it on this machine; each second some hosts change.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.page.cluster import FLAVOR, MadeCluster, explanation

STATIC = Path(__file__).resolve().parents[2] / "admission" / "dashboard" / "static"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class StandIn:
    """Serves one made-up cluster. `token` is asked for if it is not empty; `hidden` namespaces are refused.

    A `tenant` may see neither nodes nor ClusterQueues. A `bare` cluster has neither flavors nor queues. While `refuse` is set,
    all requests to the API fail. Streams begin once `begin` is set; `ahead` is how many changes
    their first event knows that a tree read before lacks.
    """

    def __init__(
        self,
        cluster: MadeCluster,
        token: str = "",
        hidden: frozenset[str] = frozenset(),
        bare: bool = False,
        tenant: bool = False,
    ) -> None:
        self.cluster, self.token, self.hidden, self.bare = cluster, token, hidden, bare
        self.tenant = tenant
        self.refuse, self.ahead = False, 0
        self.begin = asyncio.Event()
        self.begin.set()
        self.listeners: set[asyncio.Queue[bytes]] = set()
        self.asked: list[Any] = []

    def application(self) -> web.Application:
        """Returns the aiohttp application."""
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/", self._index)
        for path, answer in self._answers().items():
            app.router.add_get(f"/api/v1/{path}", answer)
        app.router.add_post("/api/v1/what-if", self._what_if)
        app.router.add_get("/api/v1/events", self._events)
        app.router.add_static("/", STATIC)
        return app

    def send(self, event: str, data: Any) -> None:
        """Sends an event to all pages."""
        for listener in self.listeners:
            listener.put_nowait(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())

    def cut(self) -> None:
        """Ends all event streams."""
        for listener in self.listeners:
            listener.put_nowait(b"")

    def _answers(self) -> dict[str, Handler]:
        def telling(value: Callable[[], Any]) -> Handler:
            async def answer(_: web.Request) -> web.Response:
                return web.json_response(value())

            return answer

        cluster = self.cluster
        none: dict[str, list[Any]] = {"flavors": [], "clusterQueues": [], "cohorts": []}
        return {
            "session": telling(lambda: {"user": "you", "signIn": "none", "version": "0.3.0", "cluster": "made-up"}),
            "topology": telling(lambda: none if self.bare else cluster.flavors()),
            "topology/{flavor}": telling(cluster.tree),
            "queues": telling(lambda: none if self.bare else cluster.queues()),
            "workloads": telling(lambda: {"items": list(cluster.rows.values())}),
            "workloads/{namespace}/{name}": self._workload,
        }

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self.refuse and request.path.startswith("/api/"):
            return web.json_response({"message": "the cache is not synced"}, status=503)
        if self.tenant and request.path.startswith(("/api/v1/topology", "/api/v1/queues")):
            return web.json_response({"message": "you may not list nodes and clusterqueues"}, status=403)
        if self.token and request.path.startswith("/api/"):
            given = request.headers.get("Authorization", "")
            if given != f"Bearer {self.token}":
                message = "This cluster asks for a token." if not given else "The cluster does not accept this token."
                return web.json_response({"message": message}, status=401)
        response: web.StreamResponse = await handler(request)
        if not response.prepared:
            response.headers["Content-Security-Policy"] = POLICY
        return response

    async def _index(self, _: web.Request) -> web.FileResponse:
        return web.FileResponse(STATIC / "index.html")

    async def _workload(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if namespace in self.hidden:
            return web.json_response({"message": f'you may not get workloads in namespace "{namespace}"'}, status=403)
        if f"{namespace}/{name}" not in self.cluster.rows:
            return web.json_response({"message": f"there is no Workload {namespace}/{name}"}, status=404)
        return web.json_response(self.cluster.detail(f"{namespace}/{name}"))

    async def _what_if(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.asked.append(asked)
        if "yaml" in asked and "kind:" not in asked["yaml"]:
            return web.json_response({"items": [], "errors": ["line 1: not a manifest: it has no kind"]})
        row = next(row for row in self.cluster.rows.values() if row["state"] == "Pending")
        return web.json_response(
            {"items": [{"explanation": explanation("team-a/what-if", row), "places": []}], "errors": []}
        )

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        listener: asyncio.Queue[bytes] = asyncio.Queue()
        self.listeners.add(listener)
        # A page that was closed is no fault.
        with suppress(ConnectionResetError):
            try:
                await response.prepare(request)
                await self.begin.wait()
                version = self.cluster.version + self.ahead
                hello = {"version": version, "trees": {FLAVOR: version}}
                await response.write(f"event: hello\ndata: {json.dumps(hello)}\n\n".encode())
                while True:
                    if not (piece := await listener.get()):
                        break
                    await response.write(piece)
            finally:
                self.listeners.discard(listener)
        return response


async def _serve(hosts: int, port: int) -> None:
    cluster = MadeCluster(hosts)
    stand_in = StandIn(cluster)
    runner = web.AppRunner(stand_in.application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    print(f"http://127.0.0.1:{port}/#/topology/{FLAVOR}")
    turn = 0
    while True:
        await asyncio.sleep(1)
        turn += 1
        host = turn * 37 % hosts
        cluster.state[host] = (cluster.state[host] + 1) % 3
        stand_in.send("topology", cluster.change([host]))


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=15_000)
    parser.add_argument("--port", type=int, default=8080)
    given = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(given.hosts, given.port))


if __name__ == "__main__":
    main()
