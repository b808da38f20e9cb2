"""The small pure parts: paths, lines, delays, the token bucket, decoding, log lines."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.errors import ApiError, Gone, ServerError, TooManyRequests
from api.kube import stream
from api.kube.backoff import Backoff, TokenBucket
from api.kube.decode import DECODE_ERRORS, decoder_for, identity, undecodable
from api.kube.resources import ALL, EVENTS, JOBS, NODES, WORKLOADS, Resource
from api.pod.pods import Pod
from api.process.logs import JsonFormatter, PlainFormatter
from api.workloads import Workload
from tests.api.kube.clock import ManualClock


@pytest.mark.parametrize(
    ("resource", "args", "path"),
    [
        (NODES, (), "/api/v1/nodes"),
        (NODES, (None, "n1"), "/api/v1/nodes/n1"),
        (NODES, ("ignored", "n1", "status"), "/api/v1/nodes/n1/status"),
        (EVENTS, ("team",), "/api/v1/namespaces/team/events"),
        (JOBS, (), "/apis/batch/v1/jobs"),
        (WORKLOADS, ("team", "w", "status"), "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads/w/status"),
        (NODES, (None, "../x?y"), "/api/v1/nodes/..%2Fx%3Fy"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("/") else "",
)
def test_paths(resource: Resource, args: tuple[str | None, ...], path: str) -> None:
    assert resource.path(*args) == path


def test_the_table_names_each_kind_once() -> None:
    assert len({(resource.group, resource.kind) for resource in ALL}) == len(ALL)
    assert len({resource.path() for resource in ALL}) == len(ALL)


@given(st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b""))), st.data())
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in lines) + b"unfinished"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    splitter = stream.Lines()
    assert [line for piece in pieces for line in splitter.feed(piece)] == [line for line in lines if line.strip()]


@pytest.mark.parametrize(
    ("body", "status", "header", "kind", "retry_after"),
    [
        (b'{"code": 410, "reason": "Expired", "message": "old"}', 410, "", Gone, None),
        (b'{"reason": "Busy", "details": {"retryAfterSeconds": 3}}', 429, "", TooManyRequests, 3),
        (b'{"reason": "Busy", "details": {"retryAfterSeconds": 3}}', 429, "9", TooManyRequests, 9),
        (b"<html>bad gateway</html>", 502, "", ServerError, None),
        (b"", 302, "", ApiError, None),
        (b'{"code": "what"}', 500, "soon", ServerError, None),
    ],
    ids=["gone", "in the body", "in the header", "a proxy", "empty", "nonsense"],
)
def test_errors_of_answers(
    body: bytes, status: int, header: str, kind: type[ApiError], retry_after: float | None
) -> None:
    error = stream.answer_error(status, {"Retry-After": header}, body)
    assert type(error) is kind
    assert (error.status, error.retry_after) == (status, retry_after)


@given(st.integers(1, 200), st.floats(0.001, 10), st.floats(10, 100))
def test_delays_grow_up_to_the_limit(failures: int, base: float, limit: float) -> None:
    backoff = Backoff(base, limit)
    ceiling = min(limit, base * 2 ** (failures - 1))
    assert ceiling / 2 <= backoff.delay(failures) <= ceiling <= backoff.ceiling(failures + 1)


def test_the_bucket_lets_a_burst_pass_and_then_the_rate() -> None:
    clock = ManualClock()
    bucket = TokenBucket(qps=10, burst=3, clock=clock)
    assert [round(bucket.reserve(), 6) for _ in range(6)] == [0, 0, 0, 0.1, 0.2, 0.3]


async def test_the_bucket_refills() -> None:
    clock = ManualClock()
    bucket = TokenBucket(qps=10, burst=3, clock=clock)
    for _ in range(3):
        bucket.reserve()
    await clock.advance(0.2)
    assert [round(bucket.reserve(), 6) for _ in range(3)] == [0, 0, 0.1]
    await clock.advance(100)
    assert [round(bucket.reserve(), 6) for _ in range(4)] == [0, 0, 0, 0.1]


def test_no_rate_is_no_limit() -> None:
    bucket = TokenBucket(qps=0, burst=1, clock=ManualClock())
    assert {bucket.reserve() for _ in range(100)} == {0.0}


WIRE = {"metadata": {"name": "x", "namespace": "team", "uid": "u", "resourceVersion": "7"}}


@pytest.mark.parametrize("kind", [dict, Pod, Workload], ids=["dict", "struct", "model"])
def test_every_type_has_an_identity(kind: type[Any]) -> None:
    body = WIRE | {"spec": {}}
    who = identity(decoder_for(kind)(msgspec.json.encode(body)))
    assert (who.key, who.name, who.namespace, who.uid, who.resource_version) == ("team/x", "x", "team", "u", "7")


def test_cluster_scoped_keys_are_names() -> None:
    assert identity({"metadata": {"name": "n1"}}).key == "n1"


@pytest.mark.parametrize(
    ("kind", "spec", "words"),
    [
        (Pod, {"containers": [{"name": 3}]}, "Pod team/x: spec.containers[0].name: 3: Expected `str`, got `int`"),
        (Workload, {"podSets": 5}, "Workload team/x: spec.podSets: 5: "),
    ],
    ids=["struct", "model"],
)
def test_undecodable_objects_are_named(kind: type[Any], spec: dict[str, Any], words: str) -> None:
    data = msgspec.json.encode(WIRE | {"spec": spec})
    with pytest.raises(DECODE_ERRORS) as caught:
        decoder_for(kind)(data)
    assert str(undecodable(kind.__name__, data, caught.value)).startswith(words)


def test_what_is_no_json_is_shown() -> None:
    with pytest.raises(msgspec.DecodeError) as caught:
        decoder_for(Pod)(b"not json")
    assert "not json" in str(undecodable("Pod", b"not json", caught.value))


def record(**extra: Any) -> logging.LogRecord:
    made = logging.getLogger("api.x").makeRecord("api.x", logging.INFO, __file__, 1, "%s is done", ("it",), None)
    made.__dict__.update(extra)
    return made


def test_log_lines_are_json_with_their_facts() -> None:
    line = json.loads(JsonFormatter().format(record(key="team/x", seconds=0.5, odd={1}, level="shadowed")))
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "INFO",
        "logger": "api.x",
        "message": "it is done",
        "key": "team/x",
        "seconds": 0.5,
        "odd": [1],
        "level_": "shadowed",
    }


def test_log_lines_of_exceptions_are_still_one_line() -> None:
    try:
        raise RuntimeError("two\nlines")
    except RuntimeError:
        made = record()
        made.exc_info = sys.exc_info()
    text = JsonFormatter().format(made)
    assert "\n" not in text
    assert "RuntimeError: two\nlines" in json.loads(text)["exception"]


def test_plain_lines_name_their_facts() -> None:
    assert PlainFormatter().format(record(key="team/x")).endswith("INFO api.x: it is done key=team/x")
