"""The holder of the controller's token can write its own fields of namespaces and ConfigMaps, and no other.

Metrics are for those whom the API server lets read them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from api.errors import ApiError
from api.kube.client import Kube, PatchKind
from api.kube.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Resource
from api.kube.settings import ClientSettings
from api.names import MANAGED_NAMESPACE, RUN_TIMES, RUN_TIMES_KEY, SAKKARA_GROUP
from api.process.access import Access
from api.process.health import HealthServer
from hack.controlplane.cluster import ControlPlane
from tests.attacks.conftest import ATTACKER, Battlefield
from tests.scenarios.site import eventually

_GROUP, _OTHER = "described", "unlabelled"
_METRICS_AUTH = Path(__file__).resolve().parents[2] / "config" / "metricsauth" / "rbac.yaml"
_READER = "scraper"
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)

REFUSED = (
    pytest.param(NAMESPACES, "kube-system", {"metadata": {"labels": {"a": "b"}}}, id="label-of-kube-system"),
    pytest.param(NAMESPACES, "default", {"metadata": {"annotations": {"a": "b"}}}, id="annotation-of-a-namespace"),
    pytest.param(
        NAMESPACES,
        "default",
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged", MANAGED_NAMESPACE: "true"}}},
        id="pod-security-beside-our-own",
    ),
    pytest.param(CONFIG_MAPS, "kube-root-ca.crt", {"data": {"ca.crt": "mine"}}, id="a-certificate"),
    pytest.param(CONFIG_MAPS, _OTHER, {"data": {"status": "Bound"}}, id="unlabelled"),
    pytest.param(CONFIG_MAPS, _OTHER, {"metadata": {"labels": {SAKKARA_GROUP: ""}}}, id="a-label-to-get-at-it"),
    pytest.param(CONFIG_MAPS, _GROUP, {"data": {"priority": "7"}}, id="what-the-user-gave"),
    pytest.param(CONFIG_MAPS, _GROUP, {"data": {"size": None}}, id="what-the-user-gave-taken-away"),
    pytest.param(CONFIG_MAPS, _GROUP, {"metadata": {"finalizers": ["a.b/c"]}}, id="a-finalizer"),
    pytest.param(CONFIG_MAPS, RUN_TIMES, {"data": {RUN_TIMES_KEY: "{}"}}, id="the-name-of-our-own-elsewhere"),
)


@pytest.mark.e2e
@pytest.mark.asyncio(loop_scope="package")
@pytest.mark.parametrize(("resource", "name", "body"), REFUSED)
async def test_the_controllers_token_writes_nothing_but_our_own_fields(
    battlefield: Battlefield, resource: Resource, name: str, body: dict[str, Any]
) -> None:
    """The embedded server knows no policies."""
    if not battlefield.on_real_server:
        pytest.skip("the embedded server has no ValidatingAdmissionPolicy")
    namespace = battlefield.namespace if resource.namespaced else None
    for made, labels in ((_GROUP, {SAKKARA_GROUP: ""}), (_OTHER, {}), (RUN_TIMES, {})):
        await battlefield.site.make(
            CONFIG_MAPS,
            {"metadata": {"name": made, "namespace": battlefield.namespace, "labels": labels}, "data": {"size": "2"}},
        )
    async with await Kube.connect(
        ClientSettings(kubeconfig=battlefield.stage.processes.kubeconfigs["controller"])
    ) as kube:

        async def refused() -> bool:
            try:
                await kube.patch(resource, name, body, namespace, kind=PatchKind.MERGE)
            except ApiError as error:
                return "Stowage writes" in str(error)
            return False

        await eventually("the policy holds", refused, seconds=60)
        own: dict[str, Any] = {"metadata": {"labels": {MANAGED_NAMESPACE: "false"}}}
        await kube.patch(NAMESPACES, "default", own, kind=PatchKind.MERGE)
        await kube.patch(
            CONFIG_MAPS, _GROUP, {"data": {"message": "ours"}}, battlefield.namespace, kind=PatchKind.MERGE
        )
        await kube.patch(
            NAMESPACES, "default", {"metadata": {"labels": {MANAGED_NAMESPACE: None}}}, kind=PatchKind.MERGE
        )


def _token(kubeconfig: Path) -> str:
    token: str = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
    return token


@pytest.mark.e2e
@pytest.mark.asyncio(loop_scope="package")
async def test_metrics_are_served_to_authorized_users_only(
    battlefield: Battlefield, request: pytest.FixtureRequest
) -> None:
    """Nobody 401, an account without the right 403, one with the ClusterRole 200."""
    if not battlefield.on_real_server:
        pytest.skip("the embedded server reviews no tokens")
    cluster: ControlPlane = request.getfixturevalue("package_cluster")
    await asyncio.to_thread(cluster.kubectl, "apply", "--server-side", "-f", str(_METRICS_AUTH))
    await battlefield.site.make(SERVICE_ACCOUNTS, {"metadata": {"name": _READER, "namespace": battlefield.namespace}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "stowage-metrics-reader"}
    subject = {"kind": "ServiceAccount", "name": _READER, "namespace": battlefield.namespace}
    await battlefield.site.make(
        CLUSTER_ROLE_BINDINGS, {"metadata": {"name": _READER}, "roleRef": role, "subjects": [subject]}
    )
    poor, good = [
        _token(await asyncio.to_thread(cluster.service_account, battlefield.namespace, name))
        for name in (ATTACKER, _READER)
    ]
    controller = ClientSettings(kubeconfig=battlefield.stage.processes.kubeconfigs["controller"])
    async with await Kube.connect(controller) as kube, aiohttp.ClientSession() as session:

        async def status(token: str | None) -> int:
            """With nothing remembered: roles take a moment to hold."""
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with (
                HealthServer("127.0.0.1", 0, lambda: None, may_read=Access(kube).may_read) as health,
                session.get(f"http://127.0.0.1:{health.port}/metrics", headers=headers) as answer,
            ):
                return answer.status

        async def read() -> bool:
            return await status(good) == 200

        await eventually("the role holds", read, seconds=60)
        assert await status(None) == 401
        assert await status("of.no.account") == 401
        assert await status(poor) == 403
