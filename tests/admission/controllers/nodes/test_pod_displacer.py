"""Pods that no node takes: when their places are given up, and in which order."""

from __future__ import annotations

from typing import Any, cast

import pytest

from admission.controllers.nodes.displaced import Place
from admission.controllers.nodes.pod_displacer import PodDisplacer
from admission.controllers.nodes.unbound import UnboundPod
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.projection import ProjectedMeta
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import BoundPod
from api.errors import Conflict
from api.kube.client import Kube
from tests.admission.controllers.nodes.test_displaced import SAYS, job, placed

KEY = "ns/wl"


def refused(n: int, host: str, owner: tuple[str, str] | None = ("Job", "wl")) -> UnboundPod:
    meta = ProjectedMeta(f"{host}-{n}", "ns", f"u{n}", "7")
    return UnboundPod(meta, KEY, SAYS, ("main", host), owner)


class MovedPods:
    """Stands for the API server, the copies of it and the cycle."""

    def __init__(self, owner: dict[str, Any] | None = None, conflict: bool = False) -> None:
        self.owner, self.conflict = owner or job(9), conflict
        self.ended: list[tuple[str, list[str]]] = []
        self.displaced: list[tuple[dict[Place, int], set[str]]] = []
        self.objects: dict[str, Any] = {}
        self.nodes, self.ledger, self.now = self, Ledger(), 100.0
        self.displacer = PodDisplacer(
            cast("Kube", self), cast("Views", self), self.ledger, self._displace, lambda: self.now
        )

    def _displace(self, key: str, lost: Any, avoid: frozenset[str]) -> None:
        assert key == KEY
        self.displaced.append((dict(lost), set(avoid)))

    async def get(self, *_: Any) -> dict[str, Any]:
        return self.owner

    async def patch(self, _: Any, name: str, body: Any, *__: Any, **___: Any) -> None:
        if self.conflict:
            raise Conflict(409, "Conflict", "changed")
        assert body["status"]["phase"] == "Failed"
        assert body["metadata"]["resourceVersion"] == "7"
        self.ended.append((name, [each["type"] for each in body["status"]["conditions"]]))


@pytest.mark.asyncio
async def test_a_place_is_given_up_after_a_while_and_the_pod_is_ended_once_it_has_none() -> None:
    server, pods = MovedPods(), [refused(0, "a")]
    server.ledger.apply(BoundPod("ns/b", "b", {}, KEY, "main"))
    assert await server.displacer.move(placed(a=1, b=1), pods) == 5
    assert server.displaced == []
    server.now += 5
    await server.displacer.move(placed(a=1, b=1), pods)
    assert server.displaced == [({("main", "a"): 1}, {"a"})]
    assert server.ended == []
    server.now += 5
    await server.displacer.move(placed(b=1, c=1), pods)
    assert server.ended == [("a-0", ["TerminatedByKueue", "DisruptionTarget"])]
    assert server.displacer.has_ended_pods(KEY)
    server.displacer.over(KEY)
    assert not server.displacer.is_moving(KEY)


@pytest.mark.asyncio
async def test_hosts_add_up_and_tries_are_bounded() -> None:
    server = MovedPods()
    await server.displacer.move(placed(a=1), [refused(0, "a")])
    for host in "abcde":
        server.now += 5
        await server.displacer.move(placed(**{host: 1}), [refused(0, host)])
    assert [avoid for _, avoid in server.displaced] == [{"a"}, {"a", "b"}, {"a", "b", "c"}]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("owner", "of"),
    [
        pytest.param(job(0), ("Job", "wl"), id="a-job-that-would-fail"),
        pytest.param(job(9), ("RayCluster", "wl"), id="another-kind"),
        pytest.param(job(9), None, id="nobody"),
    ],
)
async def test_nothing_is_done_where_no_other_pod_would_come(owner: dict[str, Any], of: tuple[str, str] | None) -> None:
    server = MovedPods(owner)
    await server.displacer.move(placed(a=1), [refused(0, "a", of)])
    server.now += 5
    assert await server.displacer.move(placed(a=1), [refused(0, "a", of)]) is None
    assert await server.displacer.move(placed(b=1), [refused(0, "a", of)]) is None
    assert (server.displaced, server.ended) == ([], [])


@pytest.mark.asyncio
async def test_a_pod_that_is_bound_in_that_moment_runs() -> None:
    server = MovedPods(conflict=True)
    await server.displacer.move(placed(b=1), [refused(0, "a")])
    server.now += 5
    await server.displacer.move(placed(b=1), [refused(0, "a")])
    assert not server.displacer.has_ended_pods(KEY)
