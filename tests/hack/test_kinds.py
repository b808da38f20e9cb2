"""What config/ says of declared job kinds is what their declarations say."""

from __future__ import annotations

from hack.kinds import CONFIG, wanted


def test_nothing_has_drifted() -> None:
    assert [name for name, text in wanted().items() if (CONFIG / name).read_text() != text] == []
