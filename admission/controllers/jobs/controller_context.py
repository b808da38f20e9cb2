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
    """`kube` writes while this process leads. `views` holds Workloads, flavors and priority classes. `wall` tells epoch
    seconds. `ending` reports whether bound pods of the Workload with that key have yet to end, on nodes that respond.
    """

    kube: Kube
    views: WorkloadViews
    recorder: Recorder
    options: JobOptions = DEFAULTS
    wall: Callable[[], float] = time.time
    ending: Callable[[str], bool] = lambda key: False
