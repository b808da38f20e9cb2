"""A gate waits for the claims that Kubernetes creates for its pod's ephemeral volumes."""

from __future__ import annotations

from typing import Any

import msgspec

from api.kube.informers.store import Store
from api.meta import parse_time
from api.pod.pods import Pod
from tests.builders import pod
from ungater.named import Named
from ungater.own_claims import PATIENCE, OwnClaims

AT = "2026-01-01T00:00:00Z"
THEN = parse_time(AT) or 0.0


class Claims(Store[Named]):
    """The watched claims; `asked` tells whether anybody needs them."""

    asked = False

    def wake(self) -> None:
        self.asked = True

    def come(self, name: str) -> None:
        body = {"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}}
        self.upsert(msgspec.convert(body, Named))


def made() -> tuple[Claims, OwnClaims, list[str]]:
    claims, came = Claims("claims"), list[str]()
    given: Any = claims
    return claims, OwnClaims(given, came.append), came


def with_volumes(*names: str) -> Pod:
    volumes = [{"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}} for name in names]
    body = msgspec.to_builtins(pod("p"))
    return msgspec.convert(
        {**body, "metadata": {**body["metadata"], "creationTimestamp": AT}, "spec": {"volumes": volumes}}, Pod
    )


def test_a_pod_without_such_volumes_waits_for_nothing_and_no_claim_is_watched() -> None:
    claims, own, _ = made()
    assert own.seconds_left("ns/wl", pod("p"), THEN) == 0.0
    assert not claims.asked


def test_it_waits_until_each_claim_exists_and_the_workload_is_looked_at_again() -> None:
    claims, own, came = made()
    waiting = with_volumes("a", "b")
    assert own.seconds_left("ns/wl", waiting, THEN + 1) == PATIENCE - 1
    claims.come("p-a")
    assert came == ["ns/wl"]
    assert own.seconds_left("ns/wl", waiting, THEN + 1) > 0
    claims.come("p-b")
    assert came == ["ns/wl"] * 2
    assert own.seconds_left("ns/wl", waiting, THEN + 1) == 0.0


def test_a_claim_that_does_not_come_holds_the_gate_for_a_bounded_time() -> None:
    _, own, _ = made()
    assert own.seconds_left("ns/wl", with_volumes("a"), THEN + PATIENCE) == 0.0


def test_a_pod_that_is_gone_is_forgotten() -> None:
    claims, own, came = made()
    own.seconds_left("ns/wl", with_volumes("a"), THEN)
    own.forget(with_volumes("a"))
    claims.come("p-a")
    assert came == []
