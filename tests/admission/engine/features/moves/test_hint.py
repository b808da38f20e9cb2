"""What the status of a waiting gang says of moves that nobody has allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.features.moves.hint import move_hint
from admission.engine.model import NO_TERMS, RestartTerms
from admission.engine.pauses import no_pause
from tests.admission.engine.features.moves.clusters import MOVABLE, NOW, Running, cluster, gang


def runs(first: RestartTerms, second: RestartTerms) -> dict[str, Running]:
    """One small workload in each of two racks; the one in r0 loses less by a move."""
    return {
        "ns/a": Running({"h0": 1}, 2, ran=700, moves=first),
        "ns/b": Running({"h2": 1}, 2, ran=900, moves=second),
    }


@pytest.mark.parametrize(
    ("first", "enabled", "text"),
    [
        (
            NO_TERMS,
            True,
            'ns/a would leave r0 for other places if the annotation stowage.dev/movable: "true" were on ns/a'
            " or on ClusterQueue q",
        ),
        (
            NO_TERMS,
            False,
            'ns/a would leave r0 for other places if the annotation stowage.dev/movable: "true" were on ns/a'
            " or on ClusterQueue q and the setting controller.moves were on",
        ),
        (MOVABLE, False, "ns/a would leave r0 for other places if the setting controller.moves were on"),
        (MOVABLE, True, None),
    ],
    ids=["forbidden", "forbidden-and-off", "off", "allowed"],
)
def test_the_hint_names_domain_workloads_and_permission(first: RestartTerms, enabled: bool, text: str | None) -> None:
    ledger = cluster(runs(first, NO_TERMS))
    found = move_hint(ledger, gang(), NOW, no_pause, enabled=enabled)
    assert (found and found.text(enabled=enabled)) == text
    assert ledger.audit() == []


@pytest.mark.parametrize(
    ("wait", "text"),
    [
        pytest.param(
            300.0,
            "ns/a could leave r0 for other places, and stay: their moves would lose 700 device-seconds of work,"
            " and its wait loses 600 at most",
            id="the wait costs less",
        ),
        pytest.param(350.0, None, id="the wait costs as much"),
        pytest.param(None, None, id="the wait is unknown"),
    ],
)
def test_the_hint_says_that_the_wait_costs_less_than_the_moves(wait: float | None, text: str | None) -> None:
    """Never for a workload that could wait less than the moves cost."""
    ledger, latest = cluster(runs(MOVABLE, NO_TERMS)), None if wait is None else NOW + wait
    found = move_hint(ledger, gang(), NOW, no_pause, enabled=True, latest=latest)
    assert (found and found.text(enabled=True)) == text


def test_there_is_no_hint_if_moves_would_not_help() -> None:
    full = {"ns/a": Running({"h0": 1}, 4), "ns/b": Running({"h2": 1}, 4), "ns/c": Running({"h3": 1}, 4)}
    assert move_hint(cluster(full), gang(), NOW, no_pause, enabled=True) is None
    young = {key: replace(one, ran=5.0) for key, one in runs(NO_TERMS, NO_TERMS).items()}
    assert move_hint(cluster(young), gang(), NOW, no_pause, enabled=True) is None
