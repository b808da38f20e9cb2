"""JobSet installed into a cluster where Stowage runs already: its jobs are taken up, the processes stay as they are."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from hack.controlplane import jobset
from hack.controlplane.build import Tools
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.scenarios.failures import complaints
from tests.scenarios.site import Site
from tests.scenarios.stage import Stage, real

pytestmark = pytest.mark.asyncio(loop_scope="module")
CONTROL_PLANE = ClusterOptions(jobset=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Stowage on a cluster without JobSet."""
    folder = tmp_path_factory.mktemp("later")
    async with real(cluster, folder) as found:
        yield found
    assert not complaints(folder), complaints(folder)[:3]


async def test_jobsets_are_taken_up_once_they_are_installed(
    stage: Stage, cluster: ControlPlane, control_plane_tools: Tools
) -> None:
    here = Site(stage.kube, "later")
    await here.open({"b1": {"r1": 2}})
    await here.submit(here.job("job", 4))
    await here.running("job", 4)
    before = stage.processes.pids
    for crd in control_plane_tools.jobset_crds():
        jobset.establish(cluster.api, crd)
    # No JobSet controller: what is shown is that ours sees it. Our webhook suspends it, a Workload is made, it starts.
    await here.submit_jobset(here.jobset("js", {"workers": (1, 4)}, {}))
    workload = await here.admitted("js")
    assert workload.status.admission is not None
    assert [psa.count for psa in workload.status.admission.pod_set_assignments] == [4]
    assert stage.processes.pids == before
