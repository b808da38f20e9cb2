"""Why a pod of Stowage does not run: what a restart cannot mend is told from what it can."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from admission.doctor.waiting_pods import PodOfOurs, why_it_waits

UNBOUND = {"type": "PodScheduled", "status": "False", "message": "0/5 nodes are available: 5 Insufficient memory."}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


@pytest.mark.parametrize(
    ("status", "why"),
    [
        pytest.param(
            {"phase": "Pending", "conditions": [UNBOUND]}, f"is Pending: {UNBOUND['message']}", id="no node has room"
        ),
        pytest.param(
            {"containerStatuses": [waiting("ImagePullBackOff", "no such image")]},
            "waits: ImagePullBackOff: no such image",
            id="an image is missing",
        ),
        pytest.param(
            {"initContainerStatuses": [waiting("CrashLoopBackOff")]}, "waits: CrashLoopBackOff", id="it ends at once"
        ),
        pytest.param({"containerStatuses": [waiting("ContainerCreating")]}, "", id="it starts"),
        pytest.param({"containerStatuses": [{"state": {"running": {}}}]}, "", id="it runs"),
        pytest.param({}, "", id="new"),
    ],
)
def test_what_holds_up_a_pod_is_said(status: dict[str, Any], why: str) -> None:
    assert why_it_waits(msgspec.convert({"metadata": {"name": "p"}, "status": status}, PodOfOurs)) == why
