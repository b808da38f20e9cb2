"""Workloads of LocalQueues whose past usage counts, for the tests of usage and of the order that follows from it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings

from admission.engine.model import Admission, PodSetAdmission, Workload
from admission.engine.queue.past_usage import UsageRules
from tests.admission.engine.builders import CPU, workload
from tests.budgets import examples

HOUR = 3600.0
RULES = UsageRules(half_life=HOUR, interval=HOUR)
"""Half of the new usage counts per sample of an hour."""

few = settings(max_examples=examples(15), deadline=None)


def admission(cpus: int, gpus: int = 0) -> Admission:
    usage = {"cpu": cpus * CPU, **({"gpu": gpus} if gpus else {})}
    return Admission("q", (PodSetAdmission("main", dict.fromkeys(usage, "any"), usage, 1),))


def of(local: str, key: str = "ns/w", cpus: int = 1, **more: float) -> Workload:
    return replace(workload(key, cpus=cpus), queue=local, **more)  # type: ignore[arg-type]
