"""What is generated of job kinds is what their declarations say."""

from __future__ import annotations

from hack.kinds import TOP, wanted


def test_nothing_has_drifted() -> None:
    assert [name for name, text in wanted().items() if (TOP / name).read_text() != text] == []
