"""`python -m admission webhook | controller`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from importlib import import_module

from admission.settings import AdmissionSettings
from api.kube.environment import BAD_SETTINGS, faults
from api.kube.process import Process, serve

Run = Callable[[Process, AdmissionSettings], Awaitable[None]]

PROCESSES = {"controller": ("admission.app", "run_controller"), "webhook": ("admission.webhook.app", "run_webhook")}
"""The module and the function of each. Only one is imported: the webhook starts without the scheduler."""


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
    module, function = PROCESSES[name]
    run: Run = getattr(import_module(module), function)
    return serve(lambda process: run(process, settings), settings.process_settings(name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
