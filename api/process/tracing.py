"""Traces of workloads for an OpenTelemetry collector, off unless the setting `tracing.endpoint` names one.

The webhook starts the trace of a new object and writes its W3C trace context into an annotation. The controller copies that to
the Workload; controller and ungater add spans to it. A Workload without a valid one gets a trace that the UID of its job
determines, so that all processes agree. Spans are made when they end, from times that were taken, and sent by a thread of the
SDK: a collector that is slow or absent delays nothing, and spans beyond a queue of 2,048 are dropped.

The tracer is the process's own, like the registry of its metrics. Without it `record` returns at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from api.kube.settings import TracingSettings
from api.meta import ObjectMeta
from api.names import TRACE_CONTEXT

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

Value = str | int | float | bool

_TRACE_CONTEXT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-0([01])")
_TEXT: Final = 256
"""Longest text of an attribute, in characters; a message may be much longer."""
_SHUTDOWN: Final = 1.0
"""Seconds in which the last spans are sent when the process ends."""


@dataclass(frozen=True, slots=True)
class _Exporter:
    tracer: Tracer
    sampling: float


_exporter: _Exporter | None = None


@contextlib.asynccontextmanager
async def exporting(settings: TracingSettings, process: str) -> AsyncIterator[None]:
    """Exports the spans of this process while the block runs; does nothing without an endpoint."""
    global _exporter
    if not settings.endpoint:
        yield
        return
    provider, spans = await asyncio.to_thread(_provider, settings, process)
    _exporter = _Exporter(provider.get_tracer("stowage"), settings.sampling)
    try:
        yield
    finally:
        _exporter = None
        await _end(provider)
        spans.shutdown()  # type: ignore[no-untyped-call]


async def _end(provider: TracerProvider) -> None:
    """Sends the spans that wait. The thread is a daemon, so that a collector that does not answer never delays the end."""
    loop, sent = asyncio.get_running_loop(), asyncio.Event()

    def end() -> None:
        provider.shutdown()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits any more
            loop.call_soon_threadsafe(sent.set)

    threading.Thread(target=end, name="last spans", daemon=True).start()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_SHUTDOWN):
            await sent.wait()


def _provider(settings: TracingSettings, process: str) -> tuple[TracerProvider, OTLPSpanExporter]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    # Loading all this takes a quarter of a second, which a process without traces does not spend.
    provider = TracerProvider(
        resource=Resource.create({"service.name": process}),
        sampler=ParentBasedTraceIdRatio(settings.sampling),
        span_limits=SpanLimits(max_attribute_length=_TEXT),
        shutdown_on_exit=False,
    )
    spans = OTLPSpanExporter(settings.endpoint)
    provider.add_span_processor(BatchSpanProcessor(spans, schedule_delay_millis=1000))
    return provider, spans


def is_on() -> bool:
    """Reports whether this process exports spans."""
    return _exporter is not None


class Root:
    """The first span of a trace, of the review of a new object."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def context(self) -> str:
        """The trace context as the annotation has it. It also says whether the object is sampled."""
        span = self._span.get_span_context()
        return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags & 1:02x}"

    def end(self, attributes: Mapping[str, Value]) -> None:
        """Ends the span."""
        self._span.set_attributes(attributes)
        self._span.end()


def begin(name: str, start: float) -> Root | None:
    """Begins a trace at this time (epoch seconds); returns None where tracing is off."""
    if _exporter is None:
        return None
    from opentelemetry.context import Context

    return Root(_exporter.tracer.start_span(name, Context(), start_time=_nanoseconds(start)))


def record(name: str, of: ObjectMeta, start: float, end: float, attributes: Mapping[str, Value]) -> None:
    """Adds a span to the trace of an object, a Workload or its job. `start` and `end` are epoch seconds."""
    if _exporter is None:
        return
    job = next((owner.uid for owner in of.owner_references if owner.controller), of.uid)
    parent = _parent(of.annotations, job, _exporter.sampling)
    span = _exporter.tracer.start_span(name, parent, start_time=_nanoseconds(start), attributes=attributes)
    span.end(_nanoseconds(max(start, end)))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


def _parent(annotations: Mapping[str, str], uid: str, sampling: float) -> Context:
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    given = _TRACE_CONTEXT.fullmatch(annotations.get(TRACE_CONTEXT, "")[:64])
    if given is None or not int(given[1], 16) or not int(given[2], 16):
        digest = hashlib.sha256(uid.encode()).hexdigest()
        trace, span, sampled = digest[:32], digest[32:48], int(digest[16:32], 16) < sampling * 2**64
    else:
        trace, span, sampled = given[1], given[2], given[3] == "1"
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return set_span_in_context(NonRecordingSpan(SpanContext(int(trace, 16), int(span, 16), True, flags)), Context())
