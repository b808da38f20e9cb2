"""Workloads whose pods the API server would refuse: the words of the wait."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.watch.resources import Limit, defect
from api.workloads import Workload

AT = "spec.podSets[0].template.spec"


def of(*containers: dict[str, Any], **more: Any) -> Workload:
    """A Workload of one pod with these containers' resources."""
    spec = {"containers": [{"name": "c", "resources": each} for each in containers], **more}
    return Workload.from_wire({"spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": spec}}]}})


def cpu(request: str | None, limit: str | None = None) -> dict[str, Any]:
    found = {"requests": request, "limits": limit}
    return {kind: {"cpu": amount} for kind, amount in found.items() if amount}


@pytest.mark.parametrize(
    ("workload", "limits", "text"),
    [
        pytest.param(of(cpu("1", "1")), [], None, id="a request at its limit"),
        pytest.param(of(cpu("1")), [], None, id="no limit"),
        pytest.param(
            of(cpu("1"), cpu("2", "1")), [],
            f'resources validation failed: {AT}.containers[1]: Invalid value: ["cpu"]: requests must not exceed its limits',
            id="above its limit",
        ),
        pytest.param(
            of(cpu("2", "1"), cpu("2", "1")), [],
            f'resources validation failed: [{AT}.containers[0]: Invalid value: ["cpu"]: requests must not exceed its limits, '
            f'{AT}.containers[1]: Invalid value: ["cpu"]: requests must not exceed its limits]',
            id="two of them",
        ),
        pytest.param(
            of(cpu("1"), resources=cpu("3", "2")), [],
            f'resources validation failed: {AT}.resources: Invalid value: ["cpu"]: requests must not exceed its limits',
            id="the pod as a whole above its limit",
        ),
        pytest.param(of(cpu("1")), [Limit("Container", {"cpu": "1"}, {"cpu": "1"})], None, id="within the range"),
        pytest.param(of(cpu("1")), [Limit("Container", max={"memory": "1Gi"})], None, id="a range for other resources"),
        pytest.param(of(cpu("1")), [Limit("PersistentVolumeClaim", max={"cpu": "0"})], None, id="a range for other things"),
        pytest.param(
            of(cpu("1", "3")), [Limit("Container", max={"cpu": "2"})],
            f'resources didn\'t satisfy LimitRange constraints: {AT}.containers[0]: Invalid value: ["cpu"]: requests must '
            "not be above the limitRange max",
            id="the limit is above the range",
        ),
        pytest.param(
            of(cpu("1", "3")), [Limit("Container", min={"cpu": "2"})],
            f'resources didn\'t satisfy LimitRange constraints: {AT}.containers[0]: Invalid value: ["cpu"]: requests must '
            "not be below the limitRange min",
            id="the request is below the range",
        ),
        pytest.param(
            of(cpu("2"), cpu("2")), [Limit("Pod", max={"cpu": "3"})],
            f'resources didn\'t satisfy LimitRange constraints: {AT}: Invalid value: ["cpu"]: requests must not be above the '
            "limitRange max",
            id="all containers of the pod together",
        ),
    ],
)  # fmt: skip
def test_defects(workload: Workload, limits: list[Limit], text: str | None) -> None:
    assert defect(workload, limits) == text
