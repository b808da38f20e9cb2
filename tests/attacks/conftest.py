"""The stage of all attacks: one for each server, with a hostile tenant and an honest one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from admission.cli.local_cluster.embedded import NAMESPACE
from api.embedded.server import EmbeddedSettings
from api.kube.client import Kube
from api.kube.resources import CRDS, JOBS, JOBSETS, SERVICE_ACCOUNTS, Resource
from api.kube.settings import ClientSettings
from hack.controlplane.build import Tools
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.fixtures import control_plane_tools, started
from hack.controlplane.options import ClusterOptions
from tests.crds import crd_of
from tests.scenarios.conftest import pytest_runtest_makereport
from tests.scenarios.failures import entries
from tests.scenarios.site import Site, eventually
from tests.scenarios.stage import Stage, embedded, real
from tests.scenarios.stage_processes import fallen

__all__ = ["control_plane_tools", "pytest_runtest_makereport"]

TENANT = "tenant"
"""Namespace and queues of the hostile tenant."""
ATTACKER = "attacker"
"""His ServiceAccount, and on the embedded server, which knows no rights, his token."""

DASHBOARD = "dashboard"
"""Of the dashboard's ServiceAccount: on the embedded server its token."""

ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")


@dataclass
class Battlefield:
    """See the package."""

    stage: Stage
    tenant: Kube
    honest: Site
    site: Site
    pids: list[int]
    token: str
    """The tenant's."""
    token_reviews: Callable[[], int]
    """TokenReviews that the embedded server was sent."""
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def admin(self) -> Kube:
        """The administrator's client."""
        return self.stage.kube

    @property
    def namespace(self) -> str:
        """Where the tenant may do what the role `edit` allows, and write JobSets."""
        return TENANT

    @property
    def on_real_server(self) -> bool:
        """The embedded server knows no rights (but answers reviews of access), no policies and no quota of Kubernetes."""
        return self.stage.name == "real"

    async def create(self, resource: Resource, obj: dict[str, Any], namespace: str | None = None) -> dict[str, Any]:
        """As the tenant. Raises what the API server answers."""
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        body["metadata"] = {"namespace": namespace or TENANT, **obj["metadata"]}
        return await self.tenant.create(resource, body)

    async def serve(self, resource: Resource) -> None:
        """The cluster has the kind, of which the tenant may write objects."""
        await self.site.make(CRDS, crd_of(resource))
        await _let_write(self.site, resource)
        await eventually(f"the tenant may write {resource.plural}", partial(_may, self.tenant, resource))

    async def assert_unharmed(self) -> None:
        """The processes are those that were started, and honest work is admitted."""
        assert not fallen(), fallen()
        assert self.stage.processes.pids == self.pids, "a process was started anew"
        name = f"honest-{next(self.numbers)}"
        await self.honest.submit(self.honest.job(name, 1))
        await self.honest.running(name, 1)
        await self.honest.remove(JOBS, name)

    def log(self, process: str) -> list[dict[str, Any]]:
        """What the process has logged."""
        return entries(self.stage.processes.folder / f"{process}.log")


@pytest.fixture(scope="package")
def package_cluster(request: pytest.FixtureRequest, control_plane_tools: Tools) -> Iterator[ControlPlane]:
    """One real control plane for all attacks, with JobSets."""
    with started(request, "attacks", ClusterOptions(jobset=True), control_plane_tools) as control_plane:
        yield control_plane


@pytest_asyncio.fixture(
    scope="package",
    loop_scope="package",
    params=["embedded", pytest.param("real", marks=pytest.mark.e2e)],
)
async def battlefield(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Battlefield]:
    """The stage, opened once for each server."""
    folder: Path = tmp_path_factory.mktemp(f"attacks-{request.param}")
    if request.param == "embedded":
        account = f"system:serviceaccount:{TENANT}:{ATTACKER}"
        tokens = {ATTACKER: account, DASHBOARD: f"system:serviceaccount:{NAMESPACE}:stowage-{DASHBOARD}"}
        asked: list[str] = []

        async def note(request: web.Request) -> None:
            if request.path.endswith("/tokenreviews"):
                asked.append(request.path)

        settings = EmbeddedSettings(tokens=tokens, tenants=frozenset({account}), intercept=note)
        async with embedded(folder, settings=settings) as stage:
            server = stage.server
            assert server is not None
            kubeconfig = server.kubeconfig(folder / "attacker.kubeconfig", token=ATTACKER)
            async for found in _opened(stage, lambda: kubeconfig, lambda: len(asked)):
                yield found
    else:
        cluster = request.getfixturevalue("package_cluster")
        async with real(cluster, folder) as stage:
            async for found in _opened(stage, lambda: cluster.service_account(TENANT, ATTACKER)):
                yield found


async def _opened(
    stage: Stage, kubeconfig: Callable[[], Path], token_reviews: Callable[[], int] = int
) -> AsyncIterator[Battlefield]:
    honest, site = Site(stage.kube, "honest"), Site(stage.kube, TENANT)
    for each in (honest, site):
        await each.open({"b1": {"r1": 2}})
    await site.make(SERVICE_ACCOUNTS, {"metadata": {"name": ATTACKER, "namespace": TENANT}})
    subject = {"kind": "ServiceAccount", "name": ATTACKER, "namespace": TENANT}
    role = {"apiGroup": ROLES.group, "kind": "ClusterRole", "name": "edit"}
    binding = {"metadata": {"name": "edit", "namespace": TENANT}, "roleRef": role, "subjects": [subject]}
    await site.make(ROLE_BINDINGS, binding)
    await _let_write(site, JOBSETS)
    path = await asyncio.to_thread(kubeconfig)
    token = yaml.safe_load(path.read_text())["users"][0]["user"]["token"]
    async with await Kube.connect(ClientSettings(kubeconfig=path)) as tenant:
        found = Battlefield(stage, tenant, honest, site, stage.processes.pids, token, token_reviews)
        for resource in (JOBS, JOBSETS):
            await eventually("the tenant's rights hold", partial(_may, tenant, resource))
        await found.assert_unharmed()
        yield found


async def _let_write(site: Site, resource: Resource) -> None:
    """As the roles of the kind's operator do: objects, and not their status."""
    name, verbs = resource.plural, ["create", "delete", "get", "list", "patch", "update", "watch"]
    rule = {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": verbs}
    await site.make(ROLES, {"metadata": {"name": name, "namespace": TENANT}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": ATTACKER, "namespace": TENANT}
    role = {"apiGroup": ROLES.group, "kind": "Role", "name": name}
    binding = {"metadata": {"name": name, "namespace": TENANT}, "roleRef": role, "subjects": [subject]}
    await site.make(ROLE_BINDINGS, binding)


async def _may(tenant: Kube, resource: Resource) -> bool:
    try:
        await tenant.list(resource, TENANT)
    except Exception:  # noqa: BLE001 - asked again until the role is known
        return False
    return True


@pytest_asyncio.fixture(loop_scope="package", autouse=True)
async def unharmed(battlefield: Battlefield) -> AsyncIterator[None]:
    """After each attack all goes on."""
    yield
    await battlefield.assert_unharmed()
