"""Keeps learned run times, and how well forecasts held, over restarts: in a ConfigMap, read when this replica begins to lead,
then written now and then.

A Workload that finished before the stored state was written is in it; those that finished later, and still exist, are
learned from the watch, so that none counts twice. Users who may edit the ConfigMap can mislead forecasts and what goes by
them, and no more: each record is checked (features/forecast/run_time_records.py), and what cannot be read is reported and left
out. An edit while this replica leads is overwritten.

The manifests have the ConfigMap, so that no right to create any is needed. Without it all is kept in memory alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from admission.controllers.forecasts.stored_calibrations import calibrations_in, stored_calibrations
from admission.engine.features.forecast.calibration import Calibrations, StartForecast
from admission.engine.features.forecast.run_time_records import UnreadableRecord, record_of, runs_of
from admission.engine.features.forecast.run_times import KINDS, RunKind, RunTimes, run_kind
from admission.metrics import forecasts as metrics
from api.errors import NotFound, StowageError
from api.kube.client import Kube, PatchKind
from api.kube.decode import DECODE_ERRORS
from api.kube.events import EventRecorder, ref_to
from api.kube.resources import CONFIG_MAPS
from api.names import RUN_TIMES, RUN_TIMES_KEY
from api.sakkara import ConfigMap
from api.workloads import Workload

log = logging.getLogger(__name__)

LARGEST: Final = 512 * 1024
"""Characters that are stored at most; of more, the kinds that were used longest ago are left out."""
_REMEMBERED: Final = 4096
_STEP: Final = 16
_PAUSE: Final = 5.0


class StoredRunTimes(msgspec.Struct):
    """Learned run times as they are stored."""

    until: float = 0.0
    """Workloads that finished by then are counted (epoch seconds)."""
    kinds: list[msgspec.Raw] = []
    """The one used longest ago first."""
    forecasts: msgspec.Raw = msgspec.Raw()
    """How well forecasts held (stored_calibrations.py)."""

    @classmethod
    def of(cls, config_map: ConfigMap) -> StoredRunTimes:
        """Decodes what the ConfigMap has. Raises one of api.kube.decode.DECODE_ERRORS."""
        text = config_map.data.get(RUN_TIMES_KEY, "")
        return msgspec.json.decode(text.encode(), type=cls) if text else cls()

    def put_into(self, times: RunTimes) -> Iterator[str]:
        """Adds the kinds to `times`. Yields the problem of each record that cannot be read, after others an empty text."""
        first = max(0, len(self.kinds) - KINDS)
        if first:
            yield f"kinds: {len(self.kinds)} items: must be at most {KINDS}"
        for index, raw in enumerate(self.kinds[first:], first):
            problem = ""
            try:
                times.put(*runs_of(msgspec.json.decode(raw)))
            except UnreadableRecord as why:
                problem = f"kinds[{index}].{why}"
            except DECODE_ERRORS as why:
                problem = f"kinds[{index}]: {why}"
            yield problem

    def calibrations(self) -> Calibrations:
        """Returns how well forecasts held. Raises one of api.kube.decode.DECODE_ERRORS."""
        return calibrations_in(self.forecasts) if bytes(self.forecasts) else Calibrations()


class RunTimeKeeper:
    """The learned `times`, how well forecasts held (`calibrations`), and their copy in the ConfigMap of `namespace`.

    `period` is in seconds.
    """

    def __init__(
        self,
        kube: Kube,
        recorder: EventRecorder,
        namespace: str,
        period: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.times, self.calibrations = RunTimes(), Calibrations()
        self._kube, self._recorder, self._namespace, self._period, self._now = kube, recorder, namespace, period, now
        # Runs seen by this process, also while another one leads: what that one has not written yet is learned again.
        self._seen: deque[tuple[RunKind, float, float]] = deque(maxlen=_REMEMBERED)
        self._changed = False
        self._told: dict[str, str] = {}

    def learn(self, kind: RunKind, began: float, ended: float) -> None:
        """Counts a run of this kind (epoch seconds)."""
        self._seen.append((kind, began, ended))
        self._record(kind, began, ended)

    def _record(self, kind: RunKind, began: float, ended: float) -> None:
        self.times.record(kind, ended - began)
        self._changed = True
        metrics.LEARNED_KINDS.set(len(self.times))

    def compare(self, start: float, told: StartForecast) -> None:
        """Counts a start (epoch seconds) of a workload that had been told this."""
        self._compared(self.calibrations.after(start, told))

    def missed(self, told: StartForecast) -> None:
        """Counts a workload that still waits although its interval is over."""
        self._compared(self.calibrations.after_miss(told))

    def _compared(self, calibrations: Calibrations) -> None:
        self.calibrations, self._changed = calibrations, True
        if (held := self.calibrations.held) is not None:
            metrics.HELD.set(held)

    async def run(self) -> None:
        """Reads the stored state, then writes what was learned every `period` seconds, until cancelled."""
        loaded = await self.load()
        while True:
            await asyncio.sleep(self._period if loaded else min(_PAUSE, self._period))
            if loaded:
                await self.save()
            else:
                loaded = await self.load()

    # ---- reading

    async def load(self) -> bool:
        """Replaces what is known by the stored state and what was seen after it. Returns False if it must be tried again."""
        try:
            config_map = await self._kube.get(CONFIG_MAPS, RUN_TIMES, self._namespace, decode=ConfigMap)
        except NotFound:
            text = f"ConfigMap {self._namespace}/{RUN_TIMES} not found; what is learned ends with this process"
            self._failed("read", text)
            return True
        except (StowageError, TimeoutError) as why:
            self._failed("read", str(why))
            return False
        stored = self._decoded(config_map)
        await self._restore(config_map, stored)
        return True

    def _decoded(self, config_map: ConfigMap) -> StoredRunTimes:
        try:
            return StoredRunTimes.of(config_map)
        except DECODE_ERRORS as why:
            self._unread(config_map, f"data[{RUN_TIMES_KEY}]: {why}; nothing of it is used")
            return StoredRunTimes()

    async def _restore(self, config_map: ConfigMap, stored: StoredRunTimes) -> None:
        self.times.clear()
        problems = []
        for number, problem in enumerate(stored.put_into(self.times)):
            if problem:
                problems.append(problem)
            if number % _STEP == 0:
                await asyncio.sleep(0)
        try:
            self.calibrations = stored.calibrations()
        except DECODE_ERRORS as why:
            problems.append(f"forecasts: {why}")
        if problems:
            told = f"{problems[0]}; {len(problems) - 1} more" if len(problems) > 1 else problems[0]
            self._unread(config_map, f"data[{RUN_TIMES_KEY}].{told}; left out")
        # A time in the future would hide all runs until then.
        until = min(stored.until, self._now())
        for kind, began, ended in tuple(self._seen):
            if ended > until:
                self._record(kind, began, ended)
        metrics.LEARNED_KINDS.set(len(self.times))

    def _unread(self, config_map: ConfigMap, text: str) -> None:
        self._recorder.record(ref_to(CONFIG_MAPS, config_map), "Warning", "RunTimesNotRead", text)
        self._failed("read", text)

    def _failed(self, operation: str, text: str) -> None:
        metrics.RUN_TIME_ERRORS.labels(operation).inc()
        if self._told.get(operation) != text:  # the same is told once, not each period
            self._told[operation] = text
            log.warning("learned run times: %s", text, extra={"operation": operation})

    # ---- writing

    async def save(self) -> None:
        """Writes what is known, if it has changed."""
        if not self._changed:
            return
        self._changed = False
        data = {RUN_TIMES_KEY: await self._encoded()}
        try:
            await self._kube.patch(CONFIG_MAPS, RUN_TIMES, {"data": data}, self._namespace, kind=PatchKind.MERGE)
            self._told.pop("write", None)
        except (StowageError, TimeoutError) as why:
            self._changed = True
            self._failed("write", str(why))

    async def _encoded(self) -> str:
        until = min(self._now(), max((ended for _, _, ended in self._seen), default=0.0))
        texts: list[str] = []
        for number, (kind, runs) in enumerate(tuple(self.times.kinds())):
            texts.append(msgspec.json.encode(record_of(kind, runs)).decode())
            if number % _STEP == 0:
                await asyncio.sleep(0)
        forecasts = stored_calibrations(self.calibrations)
        room, first = LARGEST - len(forecasts), len(texts)
        while first and room >= len(texts[first - 1]):
            first -= 1
            room -= len(texts[first]) + 2
        kinds = ",\n".join(texts[first:])  # one a line, so that people can read it
        return f'{{"until":{until!r},"kinds":[\n{kinds}\n],\n"forecasts":{forecasts}}}'


def kind_of(workload: Workload) -> RunKind:
    """Returns what the runs of the Workload are compared by."""
    owner = workload.owner
    queue = f"{workload.metadata.namespace}/{workload.spec.queue_name}"
    return run_kind(queue, owner.kind if owner else "", workload.metadata.name)
