"""What becomes a span, whatever an annotation says, and that traces cost nothing where they are off."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from api.kube.settings import TracingSettings
from api.meta import ObjectMeta, OwnerReference
from api.names import TRACE_CONTEXT
from api.process import tracing
from tests.scenarios.site import eventually
from tests.scenarios.traces import Collector, ReceivedSpan, collector

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest_asyncio.fixture
async def traces() -> AsyncIterator[Collector]:
    async with collector() as made:
        yield made


async def recorded(traces: Collector, *objects: ObjectMeta, sampling: float = 1.0) -> list[ReceivedSpan]:
    """The spans that arrive of one span for each object."""
    async with tracing.exporting(TracingSettings(traces.endpoint, sampling), "test"):
        for number, obj in enumerate(objects):
            tracing.record(f"span {number}", obj, 10.0, 11.5, {"stowage.workload": "a/b"})
    return sorted(traces.spans, key=lambda span: span.name)


def annotated(context: str) -> ObjectMeta:
    return ObjectMeta(name="a", uid="6f1c", annotations={TRACE_CONTEXT: context})


async def test_a_span_goes_to_the_trace_that_the_annotation_names(traces: Collector) -> None:
    (span,) = await recorded(traces, annotated(f"00-{TRACE}-{SPAN}-01"))
    assert (span.trace, span.parent, span.process) == (TRACE, SPAN, "test")
    assert (span.start, span.end) == (10_000_000_000, 11_500_000_000)


async def test_an_object_that_is_not_sampled_has_no_span(traces: Collector) -> None:
    assert not await recorded(traces, annotated(f"00-{TRACE}-{SPAN}-00"))


UNREADABLE = {
    "empty": "",
    "a word": "yes",
    "no trace": f"00-{'0' * 32}-{SPAN}-01",
    "no span": f"00-{TRACE}-{'0' * 16}-01",
    "capitals": f"00-{TRACE.upper()}-{SPAN}-01",
    "another version": f"ff-{TRACE}-{SPAN}-01",
    "more behind it": f"00-{TRACE}-{SPAN}-01-more",
    "a megabyte": f"00-{'4' * 1_000_000}",
    "other digits": f"00-{TRACE[:-1]}\u0663-{SPAN}-01",
    "a line end": f"00-{TRACE}-{SPAN}-01\n",
}


@pytest.mark.parametrize("context", UNREADABLE.values(), ids=UNREADABLE)
async def test_what_cannot_be_read_gives_the_trace_of_the_job(traces: Collector, context: str) -> None:
    """The Workload and its job agree without an annotation, by the job's UID."""
    job = ObjectMeta(name="a", uid="6f1c")
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="a", uid="6f1c", controller=True)
    workload = ObjectMeta(name="job-a", uid="77aa", owner_references=(owner,))
    first, second, third = await recorded(traces, annotated(context), job, workload)
    assert first.trace == second.trace == third.trace != TRACE


async def test_sampling_is_a_share_that_all_processes_agree_about(traces: Collector) -> None:
    jobs = [ObjectMeta(name="a", uid=f"uid-{number}") for number in range(400)]
    spans = {span.trace for span in await recorded(traces, *jobs, sampling=0.25)}
    assert 60 < len(spans) < 140
    traces.spans.clear()
    assert {span.trace for span in await recorded(traces, *jobs, sampling=0.25)} == spans


async def test_a_root_says_in_its_context_whether_it_is_sampled(traces: Collector) -> None:
    for sampling, flag in ((1.0, "01"), (0.0, "00")):
        async with tracing.exporting(TracingSettings(traces.endpoint, sampling), "test"):
            root = tracing.begin("review", time.time())
            assert root is not None
            assert root.context.endswith(f"-{flag}")
            root.end({"stowage.name": "n" * 5000})
    (span,) = traces.spans
    assert span.attributes["stowage.name"] == "n" * 256, "texts of users are cut"


@pytest.mark.stage
def test_a_collector_that_never_answers_holds_nothing_up() -> None:
    """The process goes on, and ends a second after it is told to."""
    program = (
        "import asyncio, sys, time\n"
        "from api.process import tracing\n"
        "from api.kube.settings import TracingSettings\n"
        "from api.meta import ObjectMeta\n"
        "async def run():\n"
        "    async with tracing.exporting(TracingSettings(sys.argv[1]), 'test'):\n"
        "        for number in range(10_000):\n"
        "            tracing.record('span', ObjectMeta(uid=str(number)), 0.0, 1.0, {})\n"
        "        began = time.monotonic()\n"
        "    return time.monotonic() - began\n"
        "print(asyncio.run(run()))"
    )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces"
        # The exporter itself would wait for ten seconds, and then try again.
        ran = subprocess.run(
            [sys.executable, "-c", program, endpoint], check=True, timeout=120, stdout=subprocess.PIPE, text=True
        )
    assert float(ran.stdout) < 8


async def test_spans_arrive_while_the_process_runs(traces: Collector) -> None:
    async with tracing.exporting(TracingSettings(traces.endpoint), "test"):
        tracing.record("span", annotated(f"00-{TRACE}-{SPAN}-01"), 0.0, 1.0, {})

        async def arrived() -> bool:
            return bool(traces.spans)

        await eventually("the span", arrived)


@pytest.mark.stage
def test_without_an_endpoint_nothing_is_loaded() -> None:
    program = (
        "import asyncio, sys, admission.app, admission.webhook.app, ungater.app\n"
        "from api.process import tracing\n"
        "from api.kube.settings import TracingSettings\n"
        "async def run():\n"
        "    async with tracing.exporting(TracingSettings(), 'test'):\n"
        "        assert not tracing.is_on() and tracing.begin('review', 0.0) is None\n"
        "asyncio.run(run())\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'requests'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "[]\n"
