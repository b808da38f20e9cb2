"""The next process leads when the leader ends, with the lease as it ships."""

from __future__ import annotations

import signal

import pytest

from tests.scenarios.failures import entries
from tests.scenarios.site import eventually
from tests.scenarios.stage import Stage
from tests.scenarios.test_crashes import leads, lease_of, standby

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True


@pytest.mark.parametrize("name", ["controller", "ungater"])
@pytest.mark.parametrize("end", [pytest.param(signal.SIGTERM, id="stopped"), pytest.param(signal.SIGKILL, id="killed")])
async def test_the_next_one_leads(stage: Stage, name: str, end: signal.Signals) -> None:
    """A process that is stopped gives its Lease back before it ends, so that nobody waits for it to run out."""
    first = stage.processes.children[name]
    assert first.process is not None
    pid = first.process.pid
    async with standby(stage, name) as second:
        await first.stop(end)
        holder = str((await lease_of(stage, name)).get("holderIdentity"))
        try:
            await eventually("the next one leads", lambda: leads(stage, second))
        finally:
            await stage.processes.restart(name)
    # It tries once: an API server on a busy machine may not answer in time.
    tried = any("lease not given back" in str(entry.get("message")) for entry in entries(first.log))
    assert tried or holder.endswith(f"_{pid}") == (end == signal.SIGKILL)
