"""Trials: everything is taken back unless kept, nested or not, and after an exception."""

from __future__ import annotations

import pytest

from admission.engine.journal import Journal


@pytest.fixture
def journal() -> Journal:
    return Journal()


def test_changes_are_taken_back_last_first(journal: Journal) -> None:
    state = {"a": 1, "b": 2}
    members = {1, 2}
    with journal.trial():
        journal.put(state, "a", 5)
        journal.put(state, "a", 6)
        journal.put(state, "c", 7)
        journal.drop(state, "b")
        journal.add(members, 3)
        journal.discard(members, 1)
        assert (state, members) == ({"a": 6, "c": 7}, {2, 3})
    assert (state, members) == ({"a": 1, "b": 2}, {1, 2})


def test_what_was_there_already_is_not_taken_away(journal: Journal) -> None:
    members = {1}
    with journal.trial():
        journal.add(members, 1)
        journal.discard(members, 2)
        journal.drop({}, "nothing")
    assert members == {1}


def test_kept_changes_stand(journal: Journal) -> None:
    state = {"a": 1}
    with journal.trial() as trial:
        journal.put(state, "a", 2)
        trial.keep()
    assert state == {"a": 2}


def test_an_outer_trial_takes_back_what_an_inner_one_kept(journal: Journal) -> None:
    state = {"a": 1}
    with journal.trial():
        with journal.trial() as inner:
            journal.put(state, "a", 2)
            inner.keep()
        assert state == {"a": 2}
    assert state == {"a": 1}


def test_an_inner_trial_takes_back_only_its_own(journal: Journal) -> None:
    state = {"a": 1}
    with journal.trial() as outer:
        journal.put(state, "a", 2)
        with journal.trial():
            journal.put(state, "a", 3)
        assert state == {"a": 2}
        outer.keep()
    assert state == {"a": 2}


def test_an_exception_takes_even_kept_changes_back(journal: Journal) -> None:
    state = {"a": 1}

    def fail() -> None:
        with journal.trial() as trial:
            journal.put(state, "a", 2)
            trial.keep()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert state == {"a": 1}
    assert not journal.recording


def test_nothing_is_recorded_while_no_trial_is_open(journal: Journal) -> None:
    journal.record(lambda: pytest.fail("must not run"))
    with journal.trial():
        assert journal.recording
    assert not journal.recording
