"""How soon the next process leads when the leader ends, with the lease as it ships (issue 19, 3)."""

from __future__ import annotations

import signal
import time

import pytest

from tests.scenarios.site import eventually
from tests.scenarios.stage import Stage
from tests.scenarios.test_crashes import leads, standby

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True


@pytest.mark.parametrize("name", ["controller", "ungater"])
@pytest.mark.parametrize(
    ("end", "most"), [pytest.param(signal.SIGTERM, 5.0, id="stopped"), pytest.param(signal.SIGKILL, 20.0, id="killed")]
)
async def test_the_next_one_leads_soon(stage: Stage, name: str, end: signal.Signals, most: float) -> None:
    async with standby(stage, name) as second:
        began = time.monotonic()
        await stage.processes.children[name].stop(end)
        try:
            await eventually("the next one leads", lambda: leads(stage, second))
            took = time.monotonic() - began
        finally:
            await stage.processes.restart(name)
    assert took <= most, f"{took:.1f} s"
