"""When the next cycle is due: at once with a head, otherwise once for all that comes within a moment."""

from __future__ import annotations

import asyncio

import pytest

from admission.controllers.watch.cycle_due import CycleDue

pytestmark = pytest.mark.asyncio


async def test_a_cycle_that_may_wait_is_expected_before_it_is_due() -> None:
    due = CycleDue()
    assert not due.is_expected
    due.set_soon()
    assert (due.is_set(), due.is_expected) == (False, True)
    await asyncio.wait_for(due.wait(), 60)
    due.clear()
    assert not due.is_expected


async def test_a_cycle_that_may_not_wait_takes_the_other_one_along() -> None:
    due = CycleDue()
    due.set_soon()
    due.set()
    assert due.is_set()
    due.clear()
    assert not due.is_expected, "no second cycle follows"


async def test_requests_while_one_is_expected_add_none() -> None:
    due = CycleDue()
    for _ in range(3):
        due.set_soon()
    await asyncio.wait_for(due.wait(), 60)
    due.clear()
    assert not due.is_expected
