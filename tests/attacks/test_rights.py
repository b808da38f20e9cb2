"""Issue 16, B8: the holder of the controller's token can write its own fields of namespaces and ConfigMaps, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from api.errors import ApiError
from api.kube.client import Kube, PatchKind
from api.kube.resources import CONFIG_MAPS, NAMESPACES, Resource
from api.kube.settings import ClientSettings
from api.names import MANAGED_NAMESPACE, SAKKARA_GROUP
from tests.attacks.conftest import Battlefield
from tests.scenarios.site import eventually

_GROUP, _OTHER = "described", "unlabelled"

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
)


@pytest.mark.e2e
@pytest.mark.asyncio(loop_scope="package")
@pytest.mark.parametrize(("resource", "name", "body"), REFUSED)
async def test_the_controllers_token_writes_nothing_but_our_own_fields(
    battlefield: Battlefield, resource: Resource, name: str, body: dict[str, Any]
) -> None:
    """Issue 16, B8. The embedded server knows no policies."""
    if not battlefield.on_real_server:
        pytest.skip("the embedded server has no ValidatingAdmissionPolicy")
    namespace = battlefield.namespace if resource.namespaced else None
    for made, labels in ((_GROUP, {SAKKARA_GROUP: ""}), (_OTHER, {})):
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
