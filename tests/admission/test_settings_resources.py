"""Settings of what quota counts: as the engine takes them, and those that cannot be."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from admission.__main__ import main
from admission.engine.quota.charging import ResourceRules, Transformation
from admission.settings import AdmissionSettings

FILE = """
resources:
  excludeResourcePrefixes: [networking.example.com/]
  transformations:
  - input: nvidia.com/mig-1g.5gb
    strategy: Replace
    outputs: {example.com/gpu-memory: 5Gi, cpu: 500m}
  - {input: cpu, multiplyBy: nvidia.com/gpu, outputs: {example.com/credits: 2}}
"""


def test_rules_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(FILE)
    monkeypatch.setenv("STOWAGE_CONFIG", str(path))
    assert AdmissionSettings().resources.rules() == ResourceRules(
        ("networking.example.com/",),
        (
            Transformation(
                "nvidia.com/mig-1g.5gb",
                {"example.com/gpu-memory": Fraction(5 * 2**30), "cpu": Fraction(500)},
                retain=False,
            ),
            Transformation("cpu", {"example.com/credits": Fraction(2, 1000)}, multiply_by="nvidia.com/gpu"),
        ),
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param('[{"input": "gpu", "outputs": {"x": "lots"}}]', "x: 'lots': must be a quantity", id="no amount"),
        pytest.param('[{"input": "gpu", "outputs": {"x": -1}}]', "x: -1: must not be negative", id="negative"),
        pytest.param(
            '[{"input": "gpu"}, {"input": "gpu"}]', "only one transformation for each input, there are more for gpu",
            id="two for one input",
        ),
        pytest.param(
            '[{"input": "gpu", "strategy": "Drop"}]', "Input should be 'Retain' or 'Replace'", id="unknown strategy"
        ),
        pytest.param('[{"outputs": {"x": 1}}]', "Field required", id="no input"),
    ],
)  # fmt: skip
def test_rules_that_cannot_be(
    value: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STOWAGE_RESOURCES__TRANSFORMATIONS", value)
    assert main(["controller"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("settings: resources.transformations")
    assert message in told
