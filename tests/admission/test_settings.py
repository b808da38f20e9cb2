"""Settings that cannot be: the process says which, what was given and what is allowed, and does not start."""

from __future__ import annotations

import pytest

from admission.__main__ import main


@pytest.mark.parametrize("process", ["controller", "webhook"])
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        pytest.param(
            "PLACEMENT__EXACT_BUDGET", "0",
            "settings: placement.exact_budget: '0': Input should be greater than or equal to 1", id="budget-0",
        ),
        pytest.param(
            "PLACEMENT__PROFILE", "Best",
            "settings: placement.profile: 'Best': Input should be 'Exact', 'Compatible' or 'LeastFree'", id="profile",
        ),
    ],
)  # fmt: skip
def test_bad_settings(
    process: str, name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"STOWAGE_{name}", value)
    assert main([process]) == 2
    assert capsys.readouterr().err == f"{said}\n"
