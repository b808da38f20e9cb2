"""`python -m admission webhook | controller | dashboard`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from importlib import import_module

from admission.settings import AdmissionSettings
from api.process.environment import BAD_SETTINGS, faults
from api.process.process import Process, serve

Run = Callable[[Process, AdmissionSettings], Awaitable[None]]

PROCESSES = {
    "controller": ("admission.app", "run_controller"),
    "dashboard": ("admission.dashboard.app", "run_dashboard"),
    "webhook": ("admission.webhook.app", "run_webhook"),
}
"""Module and function of each process, imported lazily so that the webhook does not load the scheduler."""


def main(arguments: list[str]) -> int:
    """Runs the process and returns its exit code; 2 for an unknown process name or invalid settings."""
    if len(arguments) != 1 or arguments[0] not in PROCESSES:
        print(f"usage: python -m admission {' | '.join(sorted(PROCESSES))}", file=sys.stderr)
        return 2
    try:
        name, settings = arguments[0], AdmissionSettings()
    except BAD_SETTINGS as bad:
        print(faults(bad), file=sys.stderr)
        return 2
    module, function = PROCESSES[name]
    run: Run = getattr(import_module(module), function)
    return serve(lambda process: run(process, settings), settings.process_settings(name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
