"""Bad Topologies and ResourceFlavors. The vocabulary is invalid_input.py's."""

from __future__ import annotations

from api.kube.resources import RESOURCE_FLAVORS, TOPOLOGIES
from api.names import HOSTNAME_LABEL
from tests.scenarios.invalid_input import (
    LEVELS,
    ChangeStep,
    Holds,
    InvalidRow,
    Where,
    flavor,
    refused,
    row,
    topology,
)
from tests.scenarios.site import BLOCK, GROUP, RACK

WEBHOOK, CONDITION, CEL, SCHEMA = Where.WEBHOOK, Where.CONDITION, Where.CEL, Where.SCHEMA


TOPOLOGIES_: tuple[InvalidRow, ...] = (
    row(
        "no-levels",
        SCHEMA,
        topology(),
        refused("spec.levels: Invalid value: 0: spec.levels in body should have at least 1 items"),
    ),
    row(
        "17-levels",
        SCHEMA,
        topology(*(f"example.com/l{n}" for n in range(17))),
        refused("spec.levels: Too many: 17: must have at most 16 items"),
    ),
    row(
        "level-twice",
        CEL,
        topology(RACK, RACK),
        refused("spec.levels: Invalid value: must be unique"),
        embedded=refused(f'spec.levels[1].nodeLabel: Duplicate value: "{RACK}"'),
    ),
    row(
        "hostname-not-last",
        CEL,
        topology(HOSTNAME_LABEL, RACK),
        refused(f"the {HOSTNAME_LABEL} label can only be used at the lowest level of topology"),
        embedded=refused(
            f'spec.levels[0].nodeLabel: Invalid value: "{HOSTNAME_LABEL}": '
            f"the {HOSTNAME_LABEL} label can only be used at the lowest level of topology"
        ),
    ),
    row("level-no-label-key", SCHEMA, topology("a/b/c"), refused("spec.levels[0].nodeLabel")),
    row(
        "level-changed",
        CEL,
        topology(BLOCK, RACK),
        ChangeStep(TOPOLOGIES, {"spec": {"levels": [{"nodeLabel": BLOCK}]}}),
        refused(f"levels are mutable only when {HOSTNAME_LABEL} is the lowest level both before and after the change"),
        embedded=refused(
            'spec.levels: Invalid value: ["cloud-provider.com/topology-block"]: levels are mutable '
            "only when kubernetes.io/hostname is the lowest level both before and after the change"
        ),
    ),
)


FLAVORS: tuple[InvalidRow, ...] = (
    row(
        "topology-without-node-labels",
        CEL,
        flavor(nodeLabels={}, topologyName="bad"),
        refused("at least one nodeLabel is required when topology is set"),
        embedded=refused("spec.nodeLabels: Required value: at least one nodeLabel is required when topology is set"),
    ),
    row(
        "inline-topology-without-node-labels",
        CEL,
        flavor(nodeLabels={}, topology={"levels": list(LEVELS)}),
        refused("at least one nodeLabel is required when topology is set"),
        embedded=refused("spec.nodeLabels: Required value: at least one nodeLabel is required when topology is set"),
    ),
    row(
        "topology-in-both-forms",
        CEL,
        flavor(topologyName="bad", topology={"levels": list(LEVELS)}),
        refused("topology and topologyName are mutually exclusive"),
        embedded=refused("spec.topology: Forbidden: may not be set when topologyName is set"),
    ),
    row(
        "inline-hostname-not-last",
        CEL,
        flavor(topology={"levels": [HOSTNAME_LABEL, RACK]}),
        refused(f"the {HOSTNAME_LABEL} label can only be used at the lowest level of topology"),
        embedded=refused(
            'spec.topology.levels[0]: Invalid value: "kubernetes.io/hostname": the '
            "kubernetes.io/hostname label can only be used at the lowest level of topology"
        ),
    ),
    row(
        "topology-name-changed",
        CEL,
        flavor(topologyName="bad"),
        ChangeStep(RESOURCE_FLAVORS, {"spec": {"topologyName": "other"}}),
        refused("topologyName is immutable when topologyName is set"),
        embedded=refused(
            'spec.topologyName: Invalid value: "other": topologyName is immutable when topologyName is set'
        ),
    ),
    row(
        "taint-effect-unknown",
        CEL,
        flavor(nodeTaints=[{"key": "a", "effect": "Sometimes"}]),
        refused("supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"),
        embedded=refused(
            'spec.nodeTaints[0].effect: Unsupported value: "Sometimes": supported values: "NoExecute", '
            '"NoSchedule", "PreferNoSchedule"'
        ),
    ),
    row(
        "taint-value-bad",
        WEBHOOK,
        flavor(nodeTaints=[{"key": "a", "value": "no good!", "effect": "NoSchedule"}]),
        refused(
            'spec.nodeTaints[0].value: Invalid value: "no good!": a valid label must be an empty '
            "string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
            "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
            "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        ),
    ),
    row(
        "toleration-exists-with-value",
        CEL,
        flavor(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        refused("a value must be empty when 'operator' is 'Exists'"),
        embedded=refused(
            "spec.tolerations[0].operator: Invalid value: \"b\": a value must be empty when 'operator' is 'Exists'"
        ),
    ),
    row(
        "node-label-value-bad",
        WEBHOOK,
        flavor(nodeLabels={GROUP: "no good!"}),
        refused(
            'spec.nodeLabels: Invalid value: "no good!": a valid label must be an empty string or '
            "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
            "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        ),
    ),
    row(
        "nine-node-labels",
        SCHEMA,
        flavor(nodeLabels={f"example.com/l{n}": "x" for n in range(9)}),
        refused("spec.nodeLabels: Too many: 9: must have at most 8 items"),
    ),
    row("flavor-unknown-field", SCHEMA, flavor(topologyNane="bad"), Holds(RESOURCE_FLAVORS, "spec.topologyNane", None)),
)


ROWS = (*TOPOLOGIES_, *FLAVORS)
