"""Bad topology requests of Jobs and JobSets: levels, slices, groups. The vocabulary is invalid_input.py's."""

from __future__ import annotations

from api import names
from tests.scenarios.invalid_input import (
    InvalidRow,
    Waits,
    Where,
    job,
    jobset,
    refused,
    row,
    shortened,
)
from tests.scenarios.site import BLOCK, RACK

TEMPLATES_OPEN = "the embedded server does not judge pod templates"


NOWHERE = "example.com/nowhere"


LEVELS = f'the levels of ClusterQueue "bad": {BLOCK}, {RACK}, kubernetes.io/hostname'


TEMPLATE = "spec.template.metadata.annotations"


def at(key: str) -> str:
    return f"metadata.annotations[{key}]"


def within(key: str) -> str:
    return f"{TEMPLATE}[{key}]"


WEBHOOK, CONDITION, SERVER = Where.WEBHOOK, Where.CONDITION, Where.SERVER


FIRST_FORMS: tuple[InvalidRow, ...] = (
    row(
        "unknown-level",
        WEBHOOK,
        job({names.REQUIRE_TOPOLOGY: NOWHERE}),
        refused(f'{at(names.REQUIRE_TOPOLOGY)}: Invalid value: "{NOWHERE}": must be one of {LEVELS}'),
    ),
    row(
        "unknown-level-preferred",
        WEBHOOK,
        job({names.PREFER_TOPOLOGY: NOWHERE}),
        refused(f'{at(names.PREFER_TOPOLOGY)}: Invalid value: "{NOWHERE}": must be one of {LEVELS}'),
    ),
    row(
        "unknown-level-on-template",
        WEBHOOK,
        job(on_template={names.REQUIRE_TOPOLOGY: NOWHERE}),
        refused(f'{within(names.REQUIRE_TOPOLOGY)}: Invalid value: "{NOWHERE}": must be one of {LEVELS}'),
    ),
    row(
        "both-annotations",
        WEBHOOK,
        job({names.REQUIRE_TOPOLOGY: RACK, names.PREFER_TOPOLOGY: RACK}),
        refused(
            "metadata.annotations: Invalid value: must not contain more than one topology annotation: "
            f'["{names.REQUIRE_TOPOLOGY}", "{names.PREFER_TOPOLOGY}"]'
        ),
    ),
    row(
        "auto-on-require",
        WEBHOOK,
        job({names.REQUIRE_TOPOLOGY: "auto"}),
        refused(
            f'{at(names.REQUIRE_TOPOLOGY)}: Invalid value: "auto": must name a level ({LEVELS}): '
            f"'auto' is only for '{names.PREFER_TOPOLOGY}'"
        ),
    ),
    row(
        "empty-level",
        WEBHOOK,
        job({names.REQUIRE_TOPOLOGY: ""}),
        refused(
            '[metadata.annotations[kueue.x-k8s.io/require-topology]: Invalid value: "": name part must '
            'be non-empty, metadata.annotations[kueue.x-k8s.io/require-topology]: Invalid value: "": '
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and "
            "end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex "
            "used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')]"
        ),
    ),
    row(
        "endless-level",
        WEBHOOK,
        job({names.REQUIRE_TOPOLOGY: "x" * 200_000}),
        refused(
            f"{at(names.REQUIRE_TOPOLOGY)}: Invalid value: {shortened('x' * 200_000)}: name part must be no more than 63 bytes"
        ),
    ),
    row(
        "level-in-a-queue-without-topology",
        WEBHOOK,
        job({names.REQUIRE_TOPOLOGY: RACK}, queue="plain"),
        refused(
            f'{at(names.REQUIRE_TOPOLOGY)}: Invalid value: "{RACK}": '
            'none of the flavors of ClusterQueue "plain" has a topology'
        ),
    ),
    row(
        "two-forms-disagree",
        WEBHOOK,
        job(on_template={names.REQUIRE_TOPOLOGY: RACK, names.REQUIRED_TOPOLOGY: BLOCK}),
        refused(
            "spec.template.metadata.annotations: Invalid value: must not contain more than one "
            'topology annotation: ["kueue.x-k8s.io/podset-required-topology", '
            '"kueue.x-k8s.io/podset-preferred-topology", '
            '"kueue.x-k8s.io/podset-unconstrained-topology", "kueue.x-k8s.io/require-topology"]'
        ),
    ),
)


CURRENT_FORMS: tuple[InvalidRow, ...] = (
    row(
        "required-and-preferred",
        WEBHOOK,
        job(on_template={names.REQUIRED_TOPOLOGY: RACK, names.PREFERRED_TOPOLOGY: RACK}),
        refused(
            f"{TEMPLATE}: Invalid value: must not contain more than one topology annotation: "
            f'["{names.REQUIRED_TOPOLOGY}", "{names.PREFERRED_TOPOLOGY}", "{names.UNCONSTRAINED_TOPOLOGY}"]'
        ),
    ),
    row(
        "level-no-label",
        WEBHOOK,
        job(on_template={names.REQUIRED_TOPOLOGY: "a/b/c"}),
        refused(
            "spec.template.metadata.annotations[kueue.x-k8s.io/podset-required-topology]: Invalid "
            "value: \"a/b/c\": a qualified name must consist of alphanumeric characters, '-', '_' or "
            "'.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
            "'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ),
    ),
    row(
        "required-level-not-in-topology",
        CONDITION,
        job(on_template={names.REQUIRED_TOPOLOGY: NOWHERE}),
        Waits(
            "NoMatchingFlavor",
            'couldn\'t assign flavors to pod set main: Flavor "bad" does not contain the requested level',
        ),
    ),
    row(
        "preferred-level-not-in-topology",
        CONDITION,
        job(on_template={names.PREFERRED_TOPOLOGY: NOWHERE}),
        Waits(
            "NoMatchingFlavor",
            'couldn\'t assign flavors to pod set main: Flavor "bad" does not contain the requested level',
        ),
    ),
    row(
        "unconstrained-no-boolean",
        WEBHOOK,
        job(on_template={names.UNCONSTRAINED_TOPOLOGY: "yes"}),
        refused(f'{within(names.UNCONSTRAINED_TOPOLOGY)}: Invalid value: "yes": must be a boolean value'),
    ),
)


SLICES: tuple[InvalidRow, ...] = (
    row(
        "slice-size-text",
        WEBHOOK,
        job(on_template={names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "two"}),
        refused(f'{within(names.SLICE_SIZE)}: Invalid value: "two": must be a numeric value'),
    ),
    row(
        "slice-size-endless",
        WEBHOOK,
        job(on_template={names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "9" * 5000}),
        refused(f"{within(names.SLICE_SIZE)}: Invalid value: {shortened('9' * 5000)}: must be a numeric value"),
    ),
    row(
        "slice-size-zero",
        WEBHOOK,
        job(on_template={names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "0"}),
        refused(f'{within(names.SLICE_SIZE)}: Invalid value: "0": must be greater than or equal to 1'),
    ),
    row(
        "slice-larger-than-job",
        WEBHOOK,
        job(on_template={names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "3"}),
        refused(f'{within(names.SLICE_SIZE)}: Invalid value: "3": must not be greater than pod set count 2'),
    ),
    row(
        "slice-without-size",
        WEBHOOK,
        job(on_template={names.SLICE_REQUIRED_TOPOLOGY: RACK}),
        refused(
            f"{within(names.SLICE_SIZE)}: Required value: must be set when '{names.SLICE_REQUIRED_TOPOLOGY}' is specified"
        ),
    ),
    row(
        "slice-without-level",
        WEBHOOK,
        job(on_template={names.SLICE_SIZE: "2"}),
        refused(
            f"{within(names.SLICE_SIZE)}: Forbidden: may not be set when '{names.SLICE_REQUIRED_TOPOLOGY}' is not specified"
        ),
    ),
    row(
        "layers-not-json",
        WEBHOOK,
        job(on_template={names.SLICE_CONSTRAINTS: "[{"}),
        refused(
            "spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-required-topology-constrain"
            'ts]: Invalid value: "[{": must be a valid JSON array: Input data was truncated'
        ),
    ),
    row(
        "layers-none",
        WEBHOOK,
        job(on_template={names.SLICE_CONSTRAINTS: "[]"}),
        refused(
            "spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-required-topology-constrain"
            'ts]: Invalid value: "[]": topology constraints must contain between 1 and 3 entries'
        ),
    ),
    row(
        "layers-repeat",
        WEBHOOK,
        job(
            on_template={
                names.SLICE_CONSTRAINTS: f'[{{"topology":"{RACK}","size":2}},{{"topology":"{RACK}","size":1}}]'
            }
        ),
        refused(
            "spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-required-topology-constrain"
            'ts][1].topology: Duplicate value: "cloud-provider.com/topology-rack (also at index 0)"'
        ),
    ),
    row(
        "layers-do-not-divide",
        WEBHOOK,
        job(
            pods=6,
            on_template={
                names.SLICE_CONSTRAINTS: f'[{{"topology":"{BLOCK}","size":3}},{{"topology":"{RACK}","size":2}}]'
            },
        ),
        refused(
            "spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-required-topology-constrain"
            "ts][1].size: Invalid value: 2: must evenly divide the parent layer size 3"
        ),
    ),
    row(
        "layers-beside-slice-size",
        WEBHOOK,
        job(on_template={names.SLICE_CONSTRAINTS: f'[{{"topology":"{RACK}","size":1}}]', names.SLICE_SIZE: "1"}),
        refused(
            "[spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-size]: Forbidden: may not "
            "be set when 'kueue.x-k8s.io/podset-slice-required-topology' is not specified, "
            "spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-required-topology-constrain"
            "ts]: Forbidden: may not be set when 'kueue.x-k8s.io/podset-slice-size' is specified]"
        ),
    ),
    row(
        "slices-of-unknown-level",
        CONDITION,
        job(on_template={names.SLICE_REQUIRED_TOPOLOGY: NOWHERE, names.SLICE_SIZE: "1"}),
        Waits(
            "NoMatchingFlavor",
            'couldn\'t assign flavors to pod set main: Flavor "bad" does not contain the requested level',
        ),
    ),
    row(
        "slices-wider-than-the-whole",
        CONDITION,
        job(on_template={names.REQUIRED_TOPOLOGY: RACK, names.SLICE_REQUIRED_TOPOLOGY: BLOCK, names.SLICE_SIZE: "1"}),
        Waits(
            "TopologyPlacementFailed",
            (
                "couldn't assign flavors to pod set main: podset slice topology "
                "cloud-provider.com/topology-block is above the podset topology "
                "cloud-provider.com/topology-rack"
            ),
        ),
    ),
)


GROUPS: tuple[InvalidRow, ...] = (
    row(
        "group-is-number",
        WEBHOOK,
        job(on_template={names.REQUIRED_TOPOLOGY: RACK, names.PODSET_GROUP_NAME: "7"}),
        refused(f'{within(names.PODSET_GROUP_NAME)}: Invalid value: "7": must not be a number'),
    ),
    row(
        "group-without-level",
        WEBHOOK,
        job(on_template={names.PODSET_GROUP_NAME: "pair"}),
        refused(
            "spec.template.metadata.annotations[kueue.x-k8s.io/podset-group-name]: Forbidden: may not "
            "be set when neither 'kueue.x-k8s.io/podset-preferred-topology' nor "
            "'kueue.x-k8s.io/podset-required-topology' is specified"
        ),
    ),
    row(
        "group-of-one",
        WEBHOOK,
        jobset(None, ("a", 1, {names.REQUIRED_TOPOLOGY: RACK, names.PODSET_GROUP_NAME: "pair"}), ("b", 2, {})),
        refused(
            "spec.replicatedJobs[0].template.spec.template.metadata.annotations[kueue.x-k8s.io/podset-g"
            'roup-name]: Invalid value: "pair": can only define groups of at least 2 pod sets, got: 1 '
            "pod set(s)"
        ),
    ),
    row(
        "group-without-leader",
        WEBHOOK,
        jobset(
            {names.PLACEMENT_PROFILE: names.COMPATIBLE},
            *((n, 2, {names.REQUIRED_TOPOLOGY: RACK, names.PODSET_GROUP_NAME: "pair"}) for n in "ab"),
        ),
        refused(
            "[spec.replicatedJobs[0].template.spec.template.metadata.annotations[kueue.x-k8s.io/podset-"
            'group-name]: Invalid value: "pair": can only define groups where at least one pod set has '
            "only 1 replica, got: 2 replica(s) and 2 replica(s) in the group, "
            "spec.replicatedJobs[1].template.spec.template.metadata.annotations[kueue.x-k8s.io/podset-g"
            'roup-name]: Invalid value: "pair": can only define groups where at least one pod set has '
            "only 1 replica, got: 2 replica(s) and 2 replica(s) in the group]"
        ),
    ),
    row(
        "group-with-slices-as-kueue-places-it",
        WEBHOOK,
        job(
            {names.PLACEMENT_PROFILE: names.COMPATIBLE},
            on_template={
                names.REQUIRED_TOPOLOGY: BLOCK,
                names.PODSET_GROUP_NAME: "pair",
                names.SLICE_REQUIRED_TOPOLOGY: RACK,
                names.SLICE_SIZE: "2",
            },
        ),
        refused(
            f"[{within(names.PODSET_GROUP_NAME)}: Forbidden: may not be set when '{names.SLICE_SIZE}' is specified, "
            f"{within(names.PODSET_GROUP_NAME)}: Forbidden: may not be set when '{names.SLICE_REQUIRED_TOPOLOGY}' is "
            "specified]"
        ),
    ),
    row(
        "jobset-same-names",
        SERVER,
        jobset(None, ("a", 1, {}), ("a", 2, {})),
        refused('spec.replicatedJobs[1]: Duplicate value: {"name":"a"}'),
    ),
    row(
        "jobset-19-jobs",
        WEBHOOK,
        jobset(None, *((f"j{n}", 1, {}) for n in range(19))),
        refused("spec.replicatedJobs: Too many: 19: must have at most 18 items"),
    ),
    row(
        "jobset-unknown-level",
        WEBHOOK,
        jobset({names.REQUIRE_TOPOLOGY: NOWHERE}, ("a", 1, {})),
        refused(f'{at(names.REQUIRE_TOPOLOGY)}: Invalid value: "{NOWHERE}": must be one of {LEVELS}'),
    ),
)


ROWS = (*FIRST_FORMS, *CURRENT_FORMS, *SLICES, *GROUPS)
