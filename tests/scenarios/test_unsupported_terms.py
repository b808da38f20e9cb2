"""A job with a term that nobody here can judge starts no pod, and says which term it is (issue 19, 1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scenarios.site import Site, never

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARES_STAGE = True
MakeSite = Callable[[str], Site]


async def test_a_job_with_resource_claims_waits_and_names_them(site: MakeSite) -> None:
    here = site("resource-claims")
    await here.open({"b1": {"r1": 1}})
    job = here.job("gang", 1)
    spec = job["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    await here.submit(job)
    text = "resourceClaims[0] (ResourceClaimTemplate one-gpu): devices of ResourceClaims are not counted"
    await here.waits("gang", "UnsupportedPodTerms", text)
    await never("a pod starts", lambda: _has_pods(here))


async def _has_pods(here: Site) -> bool:
    return bool(await here.pods("gang"))
