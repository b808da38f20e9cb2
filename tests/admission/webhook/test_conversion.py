"""ConversionReviews (issue 16, D4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admission.webhook.conversion import converted
from admission.webhook.review import BadReview
from api.names import GROUP


def review(desired: str, objects: list[Any], **changes: Any) -> bytes:
    request = {"uid": "1", "desiredAPIVersion": desired, "objects": objects}
    whole = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request, **changes}
    return json.dumps(whole).encode()


def queue(version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": spec}


async def test_a_list_is_converted_in_its_order() -> None:
    given = [queue("v1beta1", cohort=str(number)) for number in range(100)]
    answer = json.loads(await converted(review(f"{GROUP}/v1beta2", given)))["response"]
    assert answer["uid"] == "1"
    assert answer["result"] == {"status": "Success"}
    assert answer["convertedObjects"] == [queue("v1beta2", cohortName=str(number)) for number in range(100)]


@pytest.mark.parametrize(
    ("desired", "objects", "said"),
    [
        pytest.param("batch/v1", [], "desiredAPIVersion: 'batch/v1': only kueue.x-k8s.io", id="another-group"),
        pytest.param(f"{GROUP}/v1", [queue("v1beta1")], "objects[0]: desiredAPIVersion", id="unknown-version"),
        pytest.param(f"{GROUP}/v1beta2", [3], "objects[0]: Expected `object`", id="no-object"),
        pytest.param(
            f"{GROUP}/v1beta2", [queue("v1beta1"), {"apiVersion": "v1"}], "objects[1]: apiVersion", id="no-kind-of-ours"
        ),
    ],
)
async def test_what_cannot_be_converted_fails_with_its_place(desired: str, objects: list[Any], said: str) -> None:
    answer = json.loads(await converted(review(desired, objects)))["response"]
    assert answer["result"]["status"] == "Failure"
    assert answer["result"]["message"].startswith(said)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b'{"apiVersion": "v1"}', id="no-kind"),
        pytest.param(review("x", [], kind="AdmissionReview"), id="another-review"),
        pytest.param(review("x", [], request=None), id="no-request"),
    ],
)
async def test_other_bodies_are_bad(body: bytes) -> None:
    with pytest.raises(BadReview):
        await converted(body)


async def test_a_deep_object_fails_its_review_only() -> None:
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    body = review(f"{GROUP}/v1beta2", ["X"]).replace(b'"X"', deep)
    try:
        answer = json.loads(await converted(body))["response"]
    except BadReview:
        return
    assert answer["result"]["status"] == "Failure"
