"""What the controllers of jobs, pods and sets have in common. Built once by assembly.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from admission.controllers.jobs.context import DEFAULTS, JobOptions
from admission.controllers.watch.caches import WorkloadViews
from admission.controllers.write.workload_writer import Recorder
from api.kube.client import Kube


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What the controllers of jobs and pods share."""

    kube: Kube
    """Writes while this process leads."""
    views: WorkloadViews
    """Has Workloads, flavors and priority classes."""
    recorder: Recorder
    options: JobOptions = DEFAULTS
    wall: Callable[[], float] = time.time
    """Tells epoch seconds."""
    ending: Callable[[str], bool] = lambda key: False
    """Reports whether bound pods of the Workload with that key have yet to end, on nodes that respond."""
