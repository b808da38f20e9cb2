"""A node whose level label is empty is in no domain of that level, and so in no topology."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.model import TopologyRequest
from tests.admission.engine.builders import HOST, RACK, Cluster, domains, host, queue, racks, workload


@pytest.mark.parametrize("level", [RACK, HOST])
def test_an_empty_label_is_no_domain(level: str) -> None:
    blank = host("blank", "r1", 8)
    blank = replace(blank, labels={**blank.labels, level: ""})
    asked = workload("w", 2, topology=TopologyRequest(preferred=RACK))
    report = Cluster(racks(), blank, host("a", "r2", 2), queue(tas=99), asked).cycle()
    assert domains(report, "w") == {"a": 2}
