"""ConversionReviews."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from typing import Any

import pytest

from admission.webhook.server.conversion import ConversionLimits, converted
from admission.webhook.server.review import BadReview
from api.names import GROUP
from tests.attacks.flood import CONVERSIONS


def review(desired: str, objects: list[Any], **changes: Any) -> bytes:
    request = {"uid": "1", "desiredAPIVersion": desired, "objects": objects}
    whole = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request, **changes}
    return json.dumps(whole).encode()


def queue(version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": spec}


def answered(body: bytes, bounds: ConversionLimits | None = None) -> dict[str, Any]:
    response: dict[str, Any] = json.loads(b"".join(converted(body, bounds or ConversionLimits())))["response"]
    return response


@pytest.mark.parametrize("count", [0, 1, 100, 5000])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_is_converted_in_its_order(count: int, indent: int | None) -> None:
    text = 'a "quoted\\" [text} of é\n'
    given = [queue("v1beta1", cohort=text + str(number)) for number in range(count)]
    answer = answered(json.dumps(json.loads(review(f"{GROUP}/v1beta2", given)), indent=indent).encode())
    assert answer["uid"] == "1"
    assert answer["result"] == {"status": "Success"}
    assert answer["convertedObjects"] == [queue("v1beta2", cohortName=text + str(number)) for number in range(count)]


@pytest.mark.parametrize(
    ("desired", "objects", "message"),
    [
        pytest.param("batch/v1", [], "desiredAPIVersion: 'batch/v1': only kueue.x-k8s.io", id="another-group"),
        pytest.param(f"{GROUP}/v1", [queue("v1beta1")], "objects[0]: desiredAPIVersion", id="unknown-version"),
        pytest.param(
            f"{GROUP}/v1beta2", [queue("v1beta1"), {"apiVersion": "v1"}], "objects[1]: apiVersion", id="no-kind-of-ours"
        ),
    ],
)
def test_what_cannot_be_converted_fails_with_its_place(desired: str, objects: list[Any], message: str) -> None:
    answer = answered(review(desired, objects))
    assert answer["result"]["status"] == "Failure"
    assert answer["result"]["message"].startswith(message)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b'{"apiVersion": "v1"}', id="no-kind"),
        pytest.param(review("x", [], kind="AdmissionReview"), id="another-review"),
        pytest.param(review("x", [], request=None), id="no-request"),
        pytest.param(review(f"{GROUP}/v1beta2", [3]), id="no-object"),
        pytest.param(review(f"{GROUP}/v1beta2", [queue("v1beta1")])[:-3], id="cut-off"),
        pytest.param(review(f"{GROUP}/v1beta2", [queue("v1beta1")]).replace(b"{}", b'{"a'), id="a-text-without-an-end"),
        pytest.param(review(f"{GROUP}/v1beta2", [queue("v1beta1")]).replace(b"]", b",]"), id="a-comma-too-many"),
    ],
)
def test_other_bodies_are_bad(body: bytes) -> None:
    with pytest.raises(BadReview):
        converted(body)


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in CONVERSIONS.items()])
def test_a_hostile_conversion_takes_little_time_and_room(body: bytes) -> None:
    """Two counts that cancel each other once took all memory of the process."""
    tracemalloc.start()
    try:
        with contextlib.suppress(BadReview):
            answer = converted(body)
            assert sum(map(len, answer)) < 8 * 2**20
        assert tracemalloc.get_traced_memory()[1] < 128 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        pytest.param(ConversionLimits(values=3), "objects[0]: object: '6 values'", id="values"),
        pytest.param(ConversionLimits(answer=250), "objects[2]: the answer has more than 250 bytes", id="answer"),
        pytest.param(ConversionLimits(seconds=-1), "objects[0]: it took more than -1 s", id="time"),
    ],
)
def test_what_goes_beyond_a_bound_fails_with_its_place(bounds: ConversionLimits, message: str) -> None:
    answer = answered(review(f"{GROUP}/v1beta2", [queue("v1beta1", cohort="x")] * 3), bounds)
    assert answer["result"]["message"].startswith(message)


@pytest.mark.parametrize(
    "bounds", [ConversionLimits(object=90), ConversionLimits(objects=2)], ids=["object", "objects"]
)
def test_a_list_beyond_a_bound_is_bad(bounds: ConversionLimits) -> None:
    with pytest.raises(BadReview):
        converted(review(f"{GROUP}/v1beta2", [queue("v1beta1", cohort="x")] * 3), bounds)
