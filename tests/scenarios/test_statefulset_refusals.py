"""Changes of StatefulSets, and new ones, that the webhook refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from api.errors import ApiError
from api.kube.client import PatchKind
from api.kube.resources import NAMESPACES, STATEFUL_SETS
from api.names import (
    PODSET_GROUP_NAME,
    PRIORITY_CLASS_LABEL,
    QUEUE_NAME_LABEL,
    REQUIRED_TOPOLOGY,
    SLICE_REQUIRED_TOPOLOGY,
    SLICE_SIZE,
)
from tests.scenarios.set_controllers import StatefulSets, running
from tests.scenarios.site import RACK, eventually
from tests.scenarios.stage import Stage
from tests.scenarios.stateful_sets import MakeSite, a_set, runs

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def controller(stage: Stage) -> AsyncIterator[None]:
    """The controller of StatefulSets, where the stage has none."""
    async with running(*((StatefulSets(stage.kube),) if stage.name == "embedded" else ())):
        yield


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"spec": {"replicas": 5}}, "spec.replicas: Invalid value: 5: field is immutable", id="up"),
        pytest.param({"spec": {"replicas": 1}}, "spec.replicas: Invalid value: 1: field is immutable", id="down"),
        pytest.param(
            {"metadata": {"labels": {QUEUE_NAME_LABEL: "another"}}},
            f'metadata.labels[{QUEUE_NAME_LABEL}]: Invalid value: "another": field is immutable',
            id="another queue",
        ),
        pytest.param(
            {"metadata": {"labels": {QUEUE_NAME_LABEL: None}}},
            f'metadata.labels[{QUEUE_NAME_LABEL}]: Invalid value: "": field is immutable',
            id="no queue",
        ),
        pytest.param(
            {"metadata": {"labels": {PRIORITY_CLASS_LABEL: "high"}}},
            "WorkloadPriorityClass cannot be added to a non-suspended workload",
            id="a class",
        ),
        pytest.param(
            {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}},
            "spec.template.spec: Invalid value: field is immutable",
            id="other nodes",
        ),
    ],
)
async def test_while_it_runs_these_changes_are_refused(site: MakeSite, change: dict[str, Any], message: str) -> None:
    here = site("sts-fixed")
    await here.open({"b1": {"r1": 1}})
    await here.make(STATEFUL_SETS, a_set(here, "app", 2))
    await runs(here, "app", 2)

    async def counted() -> bool:
        found = await here.kube.get(STATEFUL_SETS, "app", here.name)
        return (found.get("status") or {}).get("readyReplicas") == 2

    await eventually("its status counts them", counted)
    with pytest.raises(ApiError) as refused:
        await here.kube.patch(STATEFUL_SETS, "app", change, here.name, kind=PatchKind.MERGE)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("labels", "annotations", "message"),
    [
        pytest.param(
            {QUEUE_NAME_LABEL: "Q_1"}, {}, f'metadata.labels[{QUEUE_NAME_LABEL}]: Invalid value: "Q_1"', id="queue"
        ),
        pytest.param(
            {},
            {REQUIRED_TOPOLOGY: "a b"},
            f'spec.template.metadata.annotations[{REQUIRED_TOPOLOGY}]: Invalid value: "a b"',
            id="level",
        ),
        pytest.param(
            {},
            {SLICE_REQUIRED_TOPOLOGY: RACK, SLICE_SIZE: "3"},
            f'spec.template.metadata.annotations[{SLICE_SIZE}]: Invalid value: "3": must not be greater than pod set count 2',
            id="slice",
        ),
        pytest.param(
            {},
            {PODSET_GROUP_NAME: "g"},
            f"spec.template.metadata.annotations[{PODSET_GROUP_NAME}]: Forbidden: may not be set when neither",
            id="group",
        ),
    ],
)
async def test_a_malformed_one_is_refused(
    site: MakeSite, labels: dict[str, str], annotations: dict[str, str], message: str
) -> None:
    here = site("sts-bad")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    bad = a_set(here, "bad", 2, annotations=annotations)
    bad["metadata"]["labels"] |= labels
    with pytest.raises(ApiError) as refused:
        await here.kube.create(STATEFUL_SETS, {"apiVersion": "apps/v1", "kind": "StatefulSet", **bad})
    assert message in str(refused.value)
