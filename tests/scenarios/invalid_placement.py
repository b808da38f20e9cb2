"""Bad constraints, periods of relaxation and placement profiles. The vocabulary is invalid_input.py's."""

from __future__ import annotations

from typing import Any

from api import names
from api.kube.resources import CLUSTER_QUEUES, WORKLOADS
from tests.scenarios.invalid_input import (
    ChangeStep,
    InvalidRow,
    Make,
    Waits,
    Where,
    job,
    jobset,
    pod_set,
    refused,
    row,
    workload,
)
from tests.scenarios.site import BLOCK, RACK

WEBHOOK, CONDITION, SCHEMA = Where.WEBHOOK, Where.CONDITION, Where.SCHEMA
SHAPED, RELAX, PROFILE = names.PLACEMENT_CONSTRAINTS, names.RELAX_TOPOLOGY_AFTER, names.PLACEMENT_PROFILE
HOST = names.HOSTNAME_LABEL
_NUMBER = "must be a whole number from 1 to 2147483647"
_WORDS = "type, partitions, min, max, factor, hard"
_PROFILES = 'supported values: "Compatible", "Exact", "LeastFree"'
_NOT_REQUIRED = (
    f"Forbidden: may not be set when neither '{names.REQUIRE_TOPOLOGY}' nor '{names.REQUIRED_TOPOLOGY}' is specified"
)


def _shaped(text: str, **annotations: str) -> Make:
    return job({SHAPED: text, **annotations})


def _at(*path: str) -> str:
    level, *word = path or ("",)
    return f"metadata.annotations[{SHAPED}]" + (f"[{level}]" if level else "") + "".join(f".{part}" for part in word)


def _asked(**request: Any) -> Make:
    return workload(pod_set(topologyRequest=request))


def _no_level(problem: str) -> Waits:
    text = f"couldn't assign flavors to pod set main: placement constraint: {problem}"
    return Waits("TopologyPlacementFailed", text)


CONSTRAINTS: tuple[InvalidRow, ...] = (
    row(
        "constraints-no-json",
        WEBHOOK,
        _shaped("{rack: pack}"),
        refused(
            f'{_at()}: Invalid value: "{{rack: pack}}": must be a JSON object by level: '
            "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
        ),
    ),
    row(
        "constraints-no-object",
        WEBHOOK,
        _shaped('["rack"]'),
        refused(f'{_at()}: Invalid value: "[\\"rack\\"]": must be a JSON object by level, not an array'),
    ),
    row(
        "constraints-empty",
        WEBHOOK,
        _shaped("{}"),
        refused(f"{_at()}: Invalid value: 0: must have from 1 to 16 levels"),
    ),
    row(
        "constraints-unknown-type",
        WEBHOOK,
        _shaped('{"rack": {"type": "scatter"}}'),
        refused(f'{_at("rack", "type")}: Invalid value: "scatter": must be one of pack, spread'),
    ),
    row(
        "constraints-unknown-word",
        WEBHOOK,
        _shaped('{"rack": {"maximum": 2}}'),
        refused(f"{_at('rack', 'maximum')}: Invalid value: 2: unknown word: must be one of {_WORDS}"),
    ),
    row(
        "constraints-factor-0",
        WEBHOOK,
        _shaped('{"rack": {"factor": 0}}'),
        refused(f"{_at('rack', 'factor')}: Invalid value: 0: {_NUMBER}"),
    ),
    row(
        "constraints-negative-and-fraction",
        WEBHOOK,
        _shaped('{"rack": {"min": -2}, "node": {"max": 1.5}}'),
        refused(
            f"[{_at('rack', 'min')}: Invalid value: -2: {_NUMBER}, {_at('node', 'max')}: Invalid value: 1.5: {_NUMBER}]"
        ),
    ),
    row(
        "constraints-min-above-max",
        WEBHOOK,
        _shaped('{"rack": {"min": 2, "max": 1}}'),
        refused(f"{_at('rack', 'min')}: Invalid value: 2: contradicts max 1: must not be greater"),
    ),
    row(
        "constraints-factor-in-no-range",
        WEBHOOK,
        _shaped('{"rack": {"min": 5, "max": 7, "factor": 4}}'),
        refused(
            f"{_at('rack', 'factor')}: Invalid value: 4: contradicts min 5 and max 7: no count in that range is a multiple"
        ),
    ),
    row(
        "constraints-more-partitions-than-pods",
        WEBHOOK,
        _shaped('{"rack": {"type": "spread", "partitions": 3}}'),
        refused(f'{_at("rack", "partitions")}: Invalid value: 3: contradicts the size of pod set "main": 2 pod(s)'),
    ),
    row(
        "constraints-partitions-packed",
        WEBHOOK,
        _shaped('{"rack": {"type": "pack", "partitions": 2}}'),
        refused(
            f'{_at("rack", "partitions")}: Invalid value: 2: contradicts type "pack": only "spread" has partitions'
        ),
    ),
    row(
        "constraints-of-one-level-twice",
        WEBHOOK,
        _shaped(f'{{"{RACK}": {{}}, "topology-rack": {{}}}}'),
        refused(f'{_at("topology-rack")}: Invalid value: "topology-rack": names the same level as "{RACK}"'),
    ),
    row(
        "constraints-in-a-group",
        WEBHOOK,
        jobset(
            {names.REQUIRE_TOPOLOGY: RACK},
            ("a", 1, {names.PODSET_GROUP_NAME: "pair", SHAPED: '{"node": {}}'}),
            ("b", 2, {names.PODSET_GROUP_NAME: "pair"}),
        ),
        refused(
            f"spec.replicatedJobs[0].template.spec.template.metadata.annotations[{SHAPED}]: Forbidden: "
            f"may not be set when '{names.PODSET_GROUP_NAME}' is specified"
        ),
    ),
    row(
        "constraints-of-unknown-level",
        CONDITION,
        _shaped('{"row": {"type": "spread", "hard": true}}'),
        _no_level(f"no level row: there are {BLOCK}, {RACK}, {HOST}"),
    ),
    row(
        "constraints-of-one-level-by-two-names",
        CONDITION,
        _shaped('{"hostname": {}, "node": {}}'),
        _no_level("levels hostname and node are the same"),
    ),
    row(
        "workload-constraints-factor-0",
        SCHEMA,
        _asked(constraints=[{"level": "rack", "factor": 0}]),
        refused("spec.podSets[0].topologyRequest.constraints[0].factor"),
    ),
    row(
        "workload-constraints-unknown-type",
        SCHEMA,
        _asked(constraints=[{"level": "rack", "type": "scatter"}]),
        refused("spec.podSets[0].topologyRequest.constraints[0].type"),
    ),
    row(
        "workload-constraints-contradict",
        WEBHOOK,
        _asked(constraints=[{"level": "rack", "min": 2, "max": 1}]),
        refused(
            "spec.podSets[0].topologyRequest.constraints[rack].min: Invalid value: 2: "
            "contradicts max 1: must not be greater"
        ),
    ),
)

RELAXATION: tuple[InvalidRow, ...] = (
    row(
        "relax-nothing-required",
        WEBHOOK,
        job({RELAX: "10m"}),
        refused(f"metadata.annotations[{RELAX}]: {_NOT_REQUIRED}"),
    ),
    row(
        "relax-what-is-preferred",
        WEBHOOK,
        job({names.PREFER_TOPOLOGY: RACK, RELAX: "10m"}),
        refused(f"metadata.annotations[{RELAX}]: {_NOT_REQUIRED}"),
    ),
    row(
        "relax-after-no-duration",
        WEBHOOK,
        job({names.REQUIRE_TOPOLOGY: RACK, RELAX: "ten minutes"}),
        refused(
            f'metadata.annotations[{RELAX}]: Invalid value: "ten minutes": must be a duration such as 90s, 10m or 1h30m'
        ),
    ),
    row(
        "relax-at-once",
        WEBHOOK,
        job({names.REQUIRE_TOPOLOGY: RACK, RELAX: "100ms"}),
        refused(
            f'metadata.annotations[{RELAX}]: Invalid value: "100ms": '
            "must be a duration such as 90s, 10m or 1h30m, of whole seconds, at least 1s"
        ),
    ),
    row(
        "workload-relax-nothing-required",
        WEBHOOK,
        _asked(preferred=RACK, relaxAfterSeconds=60),
        refused(
            "spec.podSets[0].topologyRequest.relaxAfterSeconds: Forbidden: may not be set when required is not specified"
        ),
    ),
)

SPARES: tuple[InvalidRow, ...] = (
    *(
        row(
            f"spare-hosts-{name}",
            WEBHOOK,
            job({names.REQUIRE_TOPOLOGY: RACK, names.SPARE_HOSTS: text}),
            refused(
                f'metadata.annotations[{names.SPARE_HOSTS}]: Invalid value: "{text}": '
                "must be a whole number from 1 to 100"
            ),
        )
        for name, text in (("word", "one"), ("negative", "-1"), ("billion", "1000000000"))
    ),
    row(
        "spare-hosts-no-topology",
        WEBHOOK,
        job({names.SPARE_HOSTS: "1"}),
        refused(
            f"metadata.annotations[{names.SPARE_HOSTS}]: Forbidden: may not be set without a topology request; add "
            f"'{names.REQUIRE_TOPOLOGY}', '{names.PREFER_TOPOLOGY}' or '{names.UNCONSTRAINED_TOPOLOGY}'"
        ),
    ),
)

PROFILES: tuple[InvalidRow, ...] = (
    row(
        "profile-of-a-job",
        WEBHOOK,
        job({PROFILE: "Best"}),
        refused(f'metadata.annotations[{PROFILE}]: Unsupported value: "Best": {_PROFILES}'),
    ),
    row(
        "profile-of-a-queue",
        WEBHOOK,
        Make(CLUSTER_QUEUES, {"metadata": {"name": "<id>", "annotations": {PROFILE: "exact"}}, "spec": {}}),
        refused(f'metadata.annotations[{PROFILE}]: Unsupported value: "exact": {_PROFILES}'),
    ),
    row(
        "profile-that-knows-no-large-groups",
        WEBHOOK,
        jobset(
            {PROFILE: names.COMPATIBLE, names.REQUIRE_TOPOLOGY: RACK},
            *((name, 1, {names.PODSET_GROUP_NAME: "three"}) for name in "abc"),
        ),
        refused(
            "["
            + ", ".join(
                f"spec.replicatedJobs[{n}].template.spec.template.metadata.annotations[{names.PODSET_GROUP_NAME}]: "
                'Invalid value: "three": can only define groups of exactly 2 pod sets, got: 3 pod set(s)'
                for n in range(3)
            )
            + "]"
        ),
    ),
    row(
        "profile-changed-by-hand",
        WEBHOOK,
        workload(queueName="nobody"),
        ChangeStep(WORKLOADS, {"metadata": {"annotations": {PROFILE: ""}}}),
        refused(f'metadata.annotations[{PROFILE}]: Unsupported value: "": {_PROFILES}'),
    ),
)

ROWS = (*CONSTRAINTS, *RELAXATION, *SPARES, *PROFILES)
