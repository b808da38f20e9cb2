"""`python -m admission webhook | controller`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

from admission.app import CONTROLLER, run_controller
from admission.settings import AdmissionSettings
from admission.webhook.app import WEBHOOK, run_webhook
from api.kube.environment import BAD_SETTINGS, faults
from api.kube.process import Process, serve

PROCESSES: dict[str, Callable[[Process, AdmissionSettings], Awaitable[None]]] = {
    CONTROLLER: run_controller,
    WEBHOOK: run_webhook,
}


def main(arguments: list[str]) -> int:
    """The process's exit code; 2 for a name that is none of ours, or settings that cannot be."""
    if len(arguments) != 1 or arguments[0] not in PROCESSES:
        print(f"usage: python -m admission {' | '.join(sorted(PROCESSES))}", file=sys.stderr)
        return 2
    try:
        name, settings = arguments[0], AdmissionSettings()
    except BAD_SETTINGS as bad:
        print(faults(bad), file=sys.stderr)
        return 2
    run = PROCESSES[name]
    return serve(lambda process: run(process, settings), settings.process_settings(name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
