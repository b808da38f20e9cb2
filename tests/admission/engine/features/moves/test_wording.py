"""What reads the messages of conditions finds in them what was written, and nothing in those of others."""

from __future__ import annotations

import pytest

from admission.engine.decision import PreemptionReason
from admission.engine.features.moves.wording import gang_of, moving_message, purpose_of
from admission.engine.journal import Journal
from admission.engine.model import Workload
from admission.engine.preemption.wording import eviction_message, preemptor_of
from admission.engine.quota.tree import QuotaTree

MOVING = moving_message(purpose_of("ml/job-gang-1a2b3"))


@pytest.mark.parametrize(
    ("message", "gang"),
    [
        pytest.param(MOVING, "ml/job-gang-1a2b3", id="moving"),
        pytest.param(f"Previously: {MOVING}", "ml/job-gang-1a2b3", id="moved"),
        pytest.param(moving_message("rack b1/r2 is free of workloads"), "", id="for no workload"),
        pytest.param(moving_message(purpose_of("ML/../gang")), "", id="no name"),
        pytest.param(moving_message(purpose_of(f"ml/{'a' * 300}")), "", id="longer than a name"),
        pytest.param("a" * 30_000, "", id="long"),
        pytest.param("", "", id="empty"),
    ],
)
def test_a_mover_names_the_workload_for_which_it_moves(message: str, gang: str) -> None:
    assert gang_of(message) == gang


def test_a_victim_names_its_preemptor() -> None:
    preemptor = Workload("ml/job-gang", "0f3c-11", "ml/q", "q", ())
    message = eviction_message(QuotaTree(Journal()), preemptor, "other", PreemptionReason.IN_CLUSTER_QUEUE)
    assert preemptor_of(message) == "0f3c-11"


@pytest.mark.parametrize(
    "message", ["", "Previously: Preempted", f"Preempted to accommodate a workload (UID: {'a' * 99}, "]
)
def test_other_messages_name_no_preemptor(message: str) -> None:
    assert preemptor_of(message) == ""
