"""Defects of the controller, for the alerts that nothing around a process can set off: they tell of a defect in Stowage.

The process is started from this module, and is the product's own but for what `install` wraps. A test turns one defect on at a
time by writing its name into a file.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from admission.cli.local_cluster.processes import RunningProcess

UNDECIDED: Final = "undecided"
"""The cycle fails on each workload."""
LOOP_HELD: Final = "loop-held"
"""Each cycle computes for 400 ms longer."""
LEDGER_WRONG: Final = "ledger-wrong"
"""The ledger loses the foreign pods of all nodes, and finds them again when the defect is turned off."""
FORGETFUL: Final = "forgetful"
"""Freed quota and capacity wake no workload."""

_RUN: Final = """
import runpy, sys
from tests.e2e import defects
_, switch, *sys.argv = sys.argv
defects.install(switch)
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


class Defects:
    """Starts a process with defects that are off; `turn_on` has a name of above, or nothing."""

    def __init__(self, switch: Path) -> None:
        self._switch = switch
        self.turn_on("")

    def turn_on(self, defect: str) -> None:
        """It alone, until another one is turned on."""
        self._switch.write_text(defect)

    async def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> RunningProcess:
        """As admission.cli.local_cluster.processes.start_interpreter."""
        with log.open("ab") as out:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-c", _RUN, str(self._switch), *command, env=environment, stdout=out, stderr=out
            )


def install(switch: str) -> None:
    """In the process itself, before it starts. The ledger is audited each second, not each minute."""
    from admission import app
    from admission.controllers.decide.ledger_audit import audited
    from admission.engine.cycle import cycle
    from admission.engine.queue.cluster_queue import QueueLine

    def is_on(defect: str) -> bool:
        return Path(switch).read_text() == defect

    consider, run = cycle._Cycle._consider, cycle._Cycle.run
    freed = {name: getattr(QueueLine, name) for name in ("quota_freed", "capacity_freed")}
    lost: dict[str, dict[Any, Any]] = {}

    def failing(self: Any, head: Any) -> Any:
        if is_on(UNDECIDED):
            raise RuntimeError("a defect of the test")
        return consider(self, head)

    def slow(self: Any, budget: int) -> Any:
        until = time.process_time() + (0.4 if is_on(LOOP_HELD) else 0.0)
        while time.process_time() < until:
            pass
        return run(self, budget)

    async def forgetting(ledger: Any) -> None:
        nodes = ledger._capacity.nodes
        if is_on(LEDGER_WRONG):
            lost.update({name: dict(node.foreign) for name, node in nodes.items() if node.foreign})
            for name in lost:
                nodes[name].foreign.clear()
        else:
            for name, foreign in lost.items():
                nodes[name].foreign.update(foreign)
            lost.clear()
        await audited(ledger)

    def forgetful(name: str) -> Callable[[Any, Any], bool]:
        return lambda line, what: not is_on(FORGETFUL) and freed[name](line, what)

    for name in freed:
        setattr(QueueLine, name, forgetful(name))
    cycle._Cycle._consider, cycle._Cycle.run = failing, slow  # type: ignore[method-assign]
    vars(app).update(audited=forgetting, _AUDIT_PERIOD=1.0)
