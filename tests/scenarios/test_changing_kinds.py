"""A declared kind whose CRD goes, comes back, or serves another version while its jobs run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from admission.integrations.declared.declared import DeclaredJob
from api.errors import ApiError, NotFound
from api.job_kinds import JobKind
from api.kube.client import PatchKind
from api.kube.resources import CRDS, JOB_KINDS, PODS
from api.names import ADMITTED, QUOTA_RESERVED
from tests.crds import crd_of
from tests.scenarios.site import Site, eventually
from tests.scenarios.stage import Stage
from tests.scenarios.test_job_kinds import active, declared, kind, pods_of, run, state, submit, suspended

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
Object = dict[str, Any]


def shape(here: Site, name: str, version: str = "v1") -> tuple[Object, Object]:
    made = kind(f"{name.lower()}s.example.com", name, {"path": "spec.paused"}, {"template": "spec.cell"})
    made["spec"]["version"] = version
    return made, {"cell": here.template()}


async def remove(here: Site, pods: Sequence[Object]) -> None:
    """Deletes the pods that are left, since what runs is charged until it has ended.

    The real garbage collector keeps pods of an owner that it has not seen, once the owner's kind or version is no longer
    served: it learns kinds each 30 s.
    """
    for pod in pods:
        with contextlib.suppress(NotFound):
            await here.kube.delete(PODS, pod["metadata"]["name"], here.name)


async def test_a_crd_that_is_deleted_gives_quota_back_and_one_made_anew_is_managed(site: MakeSite) -> None:
    here = site("crd-gone")
    await here.open({"b1": {"r1": 1}}, quota=1)
    made, spec = shape(here, "Raft")
    adapter = await declared(here, made)
    await submit(here, adapter, "first", spec)
    await state(here, "first", ADMITTED)
    pods = await run(here, adapter, await suspended(here, adapter, "first", wanted=False))
    crd = crd_of(adapter.resource)
    await here.kube.delete(CRDS, crd["metadata"]["name"])
    await active(here, made, "False", "NotServed")
    await remove(here, pods)
    await here.submit(here.job("other", 1))
    await here.running("other", 1)
    await here.finish("other")

    async def again() -> bool:
        try:
            await here.make(CRDS, crd)
        except ApiError:
            return False
        return True

    await eventually("the CRD is made anew", again)
    await active(here, made, "True", "Managed")
    await submit(here, adapter, "second", spec)
    await state(here, "second", ADMITTED)
    await suspended(here, adapter, "second", wanted=False)


async def test_a_job_runs_on_when_its_kind_is_served_and_declared_in_another_version(
    site: MakeSite, stage: Stage
) -> None:
    here = site("crd-version")
    await here.open({"b1": {"r1": 1}}, quota=1)
    made, spec = shape(here, "Punt")
    adapter = await declared(here, made)
    await submit(here, adapter, "first", spec)
    before = await state(here, "first", ADMITTED)
    pods = await run(here, adapter, await suspended(here, adapter, "first", wanted=False))
    crd = crd_of(adapter.resource)
    (old,) = crd["spec"]["versions"]
    versions = [{**old, "served": False, "storage": False}, {**old, "name": "v2"}]
    await here.kube.patch(CRDS, crd["metadata"]["name"], {"spec": {"versions": versions}}, kind=PatchKind.MERGE)
    await active(here, made, "False", "NotServed")
    later, _ = shape(here, "Punt", "v2")
    await here.change(JOB_KINDS, made["metadata"]["name"], {"spec": {"version": "v2"}}, cluster=True)
    await active(here, made, "True", "Managed")
    now = DeclaredJob(JobKind.from_wire(later).spec)
    job = await suspended(here, now, "first", wanted=False)
    after = await state(here, "first", ADMITTED)
    # The real garbage collector may delete the Workload: an owner that it has not seen itself, since it learns kinds each 30 s,
    # is gone for it once the version is not served.
    assert stage.name == "real" or after.metadata.uid == before.metadata.uid, "it has its quota all the time"
    assert [pod["metadata"]["name"] for pod in pods] == [pod["metadata"]["name"] for pod in pods_of(now, job)]
    await submit(here, now, "second", spec)
    await here.waits("second", "WaitingForQuota", "insufficient")
    await here.remove(now.resource, "first")
    await remove(here, pods)
    await state(here, "second", QUOTA_RESERVED)
