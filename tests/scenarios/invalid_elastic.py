"""Bad ElasticQuotas, in both groups. The vocabulary is invalid_input.py's; a second one: test_elastic_quota.py."""

from __future__ import annotations

from typing import Any

from api.kube.resources import ELASTIC_QUOTAS, SIGS_ELASTIC_QUOTAS, Resource
from tests.scenarios.invalid_input import InvalidRow, Make, Refused, Where, row
from tests.scenarios.site import GPU


def _quota(kind: Resource = ELASTIC_QUOTAS, **spec: Any) -> Make:
    return Make(kind, {"spec": spec})


def _refused(message: str) -> Refused:
    return Refused(422, "Invalid", message)


_NEGATIVE = "must be greater than or equal to 0"

ROWS: tuple[InvalidRow, ...] = (
    row(
        "elastic-min-negative",
        Where.WEBHOOK,
        _quota(min={"cpu": "-1"}),
        _refused(f'spec.min[cpu]: Invalid value: "-1": {_NEGATIVE}'),
    ),
    row(
        "elastic-max-negative",
        Where.WEBHOOK,
        _quota(max={GPU: -4}),
        _refused(f'spec.max[{GPU}]: Invalid value: "-4": {_NEGATIVE}'),
    ),
    row(
        "elastic-min-above-max",
        Where.WEBHOOK,
        _quota(min={"cpu": 2, GPU: 5}, max={"cpu": "2000m", GPU: 4}),
        _refused(f'spec.min[{GPU}]: Invalid value: "5": must be less than or equal to spec.max[{GPU}], which is 4'),
    ),
    row(
        "elastic-older-group",
        Where.WEBHOOK,
        _quota(SIGS_ELASTIC_QUOTAS, min={"memory": "1Gi"}, max={"memory": "1G"}),
        _refused('spec.min[memory]: Invalid value: "1Gi": must be less than or equal to spec.max[memory], which is 1G'),
    ),
    row("elastic-no-quantity", Where.SCHEMA, _quota(min={"cpu": "much"}), _refused("spec.min.cpu")),
    row(
        "elastic-beyond-numbers",
        Where.WEBHOOK,
        _quota(max={"cpu": "1e500"}),
        _refused('spec.max[cpu]: Invalid value: "1e500": must be a quantity such as 2, 500m, 1.5, 64Gi or 1e3'),
    ),
    row(
        "elastic-no-resource-name",
        Where.WEBHOOK,
        _quota(min={"-": 1}),
        _refused(
            "spec.min[-]: Invalid value: \"-\": name part must consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
            "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ),
    ),
    row("elastic-other-word", Where.SCHEMA, _quota(min=["cpu"]), _refused("spec.min")),
)
"""Every row."""
