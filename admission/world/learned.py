"""The run times that a cluster's controller has learned, for the guesses by which workloads overtake others.

As the ConfigMap has them: what the controller learned since it wrote it last (`controller.runTimesPeriod`) is missing.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from admission.controllers.forecasts.guesses import guess_of
from admission.controllers.forecasts.run_time_keeper import StoredRunTimes
from admission.controllers.watch.workload_conversion import Guess, no_guess
from admission.engine.features.forecast.run_times import RunTimes
from admission.world.world import RejectedObject
from api.errors import Forbidden, NotFound
from api.kube.client import Kube
from api.kube.decode import DECODE_ERRORS
from api.kube.resources import CONFIG_MAPS
from api.names import RUN_TIMES, RUN_TIMES_KEY
from api.sakkara import ConfigMap

_CLUSTER: Final = "the cluster"


async def learned_guess(kube: Kube, namespace: str) -> tuple[Guess, list[RejectedObject]]:
    """Returns the guess by the run times that are stored in the namespace, and what of them could not be read."""
    where = f"ConfigMap {namespace}/{RUN_TIMES}"
    try:
        stored = StoredRunTimes.of(await kube.get(CONFIG_MAPS, RUN_TIMES, namespace, decode=ConfigMap))
    except NotFound:
        return no_guess, []
    except Forbidden as refused:
        return no_guess, [RejectedObject(_CLUSTER, where, f"learned run times are not known: {refused.message}")]
    except DECODE_ERRORS as why:
        return no_guess, [RejectedObject(_CLUSTER, where, f"data[{RUN_TIMES_KEY}]: {why}; nothing of it is used")]
    times = RunTimes()
    problems = list(filter(None, stored.put_into(times)))
    faults = [RejectedObject(_CLUSTER, where, f"data[{RUN_TIMES_KEY}].{problem}; left out") for problem in problems[:1]]
    return partial(guess_of, times), faults
