"""No object that anybody can write ends a process or an informer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from api.errors import ApiError
from api.kube.resources import CONFIG_MAPS, JOBS, PODS, Resource
from api.names import (
    GANG_GROUP,
    GANG_MEMBER,
    GANG_TERMS,
    PLACEMENT_CONSTRAINTS,
    QUEUE_NAME_LABEL,
    REQUIRED_TOPOLOGY,
    SAKKARA_GROUP,
    SIGS_GANG,
    SIGS_GANG_GROUPS,
    SIGS_GANG_MINIMUM,
    SLICE_CONSTRAINTS,
)
from api.sakkara import CONSTRAINTS
from tests.attacks.conftest import Battlefield
from tests.scenarios.site import RACK

DEEP = "[" * 6000
CLOSED = "[" * 6000 + "]" * 6000
OBJECTS = '{"a":' * 6000 + "1" + "}" * 6000
DIGITS = "9" * 5000
ZEROS = "0" * 5000 + "1"

TAKEN, REFUSED = "taken", "refused"


@dataclass(frozen=True)
class Attack:
    """An object, and what comes of the attempt to write it."""

    id: str
    resource: Resource
    body: Mapping[str, Any]
    outcome: str
    on_real: str | None = None


def _pod(labels: Mapping[str, str], annotations: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1m"}}}
    return {
        "metadata": {"labels": dict(labels), "annotations": dict(annotations)},
        "spec": {"containers": [container], **spec},
    }


def _job(annotations: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    template: dict[str, Any] = {"spec": {**_pod({}, {}, restartPolicy="Never")["spec"], **spec}}
    template["metadata"] = {"annotations": dict(annotations)}
    return {"metadata": {"labels": {QUEUE_NAME_LABEL: "lq"}}, "spec": {"template": template}}


def _map(**data: str) -> dict[str, Any]:
    return {"metadata": {"labels": {SAKKARA_GROUP: ""}}, "data": {"size": "2", **data}}


def _affinity(value: str) -> dict[str, Any]:
    expression = {"key": "kubernetes.io/hostname", "operator": "Gt", "values": [value]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


_MEMBER = {GANG_MEMBER: "true"}
_GANG = {SIGS_GANG: "ring", SIGS_GANG_MINIMUM: "2"}

ATTACKS = (
    *(
        Attack(f"terms-{name}", PODS, _pod(_MEMBER, {GANG_TERMS: text}), TAKEN)
        for name, text in {
            "deep": DEEP,
            "closed": CLOSED,
            "objects": OBJECTS,
            "digits": DIGITS,
            "infinite": '{"name":"a","policy":"only-waiting","minimum":1e999}',
            "wrong-types": '{"name":["a"],"policy":"only-waiting","groups":[{}],"minimum":"x"}',
            "surrogate": r'{"name":"\ud800","policy":"only-waiting"}',
            "long": '{"name":"' + "a" * 200_000 + '"}',
        }.items()
    ),
    Attack("gang-groups-deep", PODS, _pod(_GANG, {SIGS_GANG_GROUPS: CLOSED}), REFUSED),
    Attack("constraints-deep", JOBS, _job({PLACEMENT_CONSTRAINTS: OBJECTS}), REFUSED),
    Attack("constraints-digits", JOBS, _job({PLACEMENT_CONSTRAINTS: DIGITS}), REFUSED),
    Attack("layers-deep", JOBS, _job({REQUIRED_TOPOLOGY: RACK, SLICE_CONSTRAINTS: CLOSED}), REFUSED),
    Attack("gang-group-of-a-job", JOBS, _job({GANG_GROUP: CLOSED}), TAKEN),
    Attack("affinity-digits", JOBS, _job({}, affinity=_affinity(DIGITS)), TAKEN, on_real=REFUSED),
    Attack("map-constraints-deep", CONFIG_MAPS, _map(**{CONSTRAINTS: OBJECTS}), REFUSED),
    Attack("map-constraints-of-a-million-values", CONFIG_MAPS, _map(**{CONSTRAINTS: "[" * 1_000_000}), REFUSED),
    Attack("map-priority-zeros", CONFIG_MAPS, _map(priority=ZEROS), REFUSED),
    Attack("map-size-digits", CONFIG_MAPS, _map(size=DIGITS), REFUSED),
    Attack("map-results-deep", CONFIG_MAPS, _map(placement=OBJECTS, rank=CLOSED, schedBeginTime=DIGITS), TAKEN),
    Attack("map-results-infinite", CONFIG_MAPS, _map(rank='[["a", 1e999]]', schedTotalTimeMilli=DIGITS), TAKEN),
)


@pytest.mark.asyncio(loop_scope="package")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
async def test_no_text_that_a_parser_gets_ends_a_process(battlefield: Battlefield, attack: Attack) -> None:
    """What was taken stays, for the test of a restart below."""
    metadata = {"name": f"text-{attack.id}", **attack.body["metadata"]}
    body = {**attack.body, "metadata": metadata}
    outcome = attack.on_real if battlefield.on_real_server and attack.on_real else attack.outcome
    if outcome == TAKEN:
        await battlefield.create(attack.resource, body)
        return
    with pytest.raises(ApiError) as refusal:
        await battlefield.create(attack.resource, body)
    assert 400 <= refusal.value.status < 500, refusal.value


@pytest.mark.asyncio(loop_scope="package")
async def test_processes_start_where_such_objects_are(battlefield: Battlefield) -> None:
    """Each webhook replica ended again after each restart."""
    processes = battlefield.stage.processes
    for name in processes.children:
        await processes.crash(name)
        await processes.restart(name)
    battlefield.pids = processes.pids
