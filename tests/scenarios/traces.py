"""An OpenTelemetry collector for tests: it takes OTLP over HTTP and keeps the spans."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from api.kube.client import Kube
from api.kube.resources import JOBS, WORKLOADS
from api.names import TRACE_CONTEXT
from tests.scenarios.site import RACK, Site, eventually

OF_A_JOB = {
    "review": "stowage-webhook",
    "decide": "stowage-controller",
    "wait for quota": "stowage-controller",
    "write the admission": "stowage-controller",
    "patch the job": "stowage-controller",
    "open the gates": "stowage-ungater",
}
"""The spans of a Job that starts at once, with the process of each."""


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span as it was sent. Times are in nanoseconds; `parent` is empty for a root."""

    trace: str
    span: str
    parent: str
    process: str
    name: str
    start: int
    end: int
    attributes: dict[str, str]


@dataclass
class Collector:
    """The spans that arrived at `endpoint`."""

    endpoint: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)

    async def receive(self, request: web.Request) -> web.Response:
        body = ExportTraceServiceRequest.FromString(await request.read())
        for resource in body.resource_spans:
            (process,) = (a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
            for scope in resource.scope_spans:
                for span in scope.spans:
                    about = {
                        attribute.key: attribute.value.string_value or str(attribute.value.int_value)
                        for attribute in span.attributes
                    }
                    ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
                    times = span.start_time_unix_nano, span.end_time_unix_nano
                    self.spans.append(ReceivedSpan(*ids, process, span.name, *times, about))
        return web.Response()

    def of(self, trace: str) -> list[ReceivedSpan]:
        """The spans of a trace."""
        return [span for span in self.spans if span.trace == trace]


@contextlib.asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    """Collects while the block runs."""
    found, app = Collector(), web.Application()
    app.router.add_post("/v1/traces", found.receive)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.endpoint = f"{site.name}/v1/traces"
    try:
        yield found
    finally:
        await runner.cleanup()


async def trace_of(kube: Kube, namespace: str, job: str) -> tuple[str, str]:
    """Returns the trace and the first span that the Workload of a Job names."""
    uid = (await kube.get(JOBS, job, namespace))["metadata"]["uid"]
    page = await kube.list(WORKLOADS, namespace, label_selector=f"kueue.x-k8s.io/job-uid={uid}")
    (workload,) = page.items
    _, trace, span, _ = workload["metadata"]["annotations"][TRACE_CONTEXT].split("-")
    return trace, span


async def follow_a_job(traces: Collector, site: Site) -> None:
    """A Job's whole way is one trace of all three processes, whatever its user wrote into the annotation."""
    forged = f"00-{'ab' * 16}-{'cd' * 8}-01"
    await site.submit(site.job("traced", 4, {"kueue.x-k8s.io/podset-required-topology": RACK, TRACE_CONTEXT: forged}))
    await site.running("traced", 4)
    trace, first = await trace_of(site.kube, site.name, "traced")

    async def whole() -> bool:
        return {span.name for span in traces.of(trace)} >= OF_A_JOB.keys()

    await eventually("all spans of the job", whole)
    spans = traces.of(trace)
    assert {span.name: span.process for span in spans} == OF_A_JOB
    (root,) = (span for span in spans if not span.parent)
    assert (root.name, root.span) == ("review", first)
    assert {span.parent for span in spans if span is not root} == {first}
    assert all(span.start <= span.end for span in spans)
    by_name = {span.name: span for span in spans}
    assert by_name["decide"].attributes["stowage.outcome"] == "Admitted"
    assert by_name["patch the job"].attributes["stowage.events"] == "Started"
    opened = [span.attributes for span in spans if span.name == "open the gates"]
    assert sum(int(each["stowage.pods"]) for each in opened) == 4
    assert not traces.of("ab" * 16), "nobody writes into the trace of another"
