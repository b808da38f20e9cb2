"""Bad Jobs and JobSets. The vocabulary is invalid_input.py's."""

from __future__ import annotations

from api import names
from api.kube.resources import JOBS
from tests.scenarios.invalid_input import (
    ChangeStep,
    Holds,
    InvalidRow,
    Make,
    Refused,
    RunsStep,
    Says,
    Waits,
    Warns,
    Where,
    cluster_queue,
    group,
    job,
    jobset,
    local_queue,
    refused,
    row,
    shortened,
)
from tests.scenarios.site import BLOCK, GPU, RACK

TEMPLATES_OPEN = "the embedded server does not judge pod templates"
NOWHERE = "example.com/nowhere"
_LEVELS = f'the levels of ClusterQueue "bad": {BLOCK}, {RACK}, kubernetes.io/hostname'
_TEMPLATE = "spec.template.metadata.annotations"


def _at(key: str) -> str:
    return f"metadata.annotations[{key}]"


def _in(key: str) -> str:
    return f"{_TEMPLATE}[{key}]"


WEBHOOK, CONDITION, SERVER = Where.WEBHOOK, Where.CONDITION, Where.SERVER

FIRST_FORMS: tuple[InvalidRow, ...] = (
    row(
        "unknown-level",
        WEBHOOK,
        job({names.REQUIRE_TOPOLOGY: NOWHERE}),
        refused(f'{_at(names.REQUIRE_TOPOLOGY)}: Invalid value: "{NOWHERE}": must be one of {_LEVELS}'),
    ),
    row(
        "unknown-level-preferred",
        WEBHOOK,
        job({names.PREFER_TOPOLOGY: NOWHERE}),
        refused(f'{_at(names.PREFER_TOPOLOGY)}: Invalid value: "{NOWHERE}": must be one of {_LEVELS}'),
    ),
    row(
        "unknown-level-on-template",
        WEBHOOK,
        job(on_template={names.REQUIRE_TOPOLOGY: NOWHERE}),
        refused(f'{_in(names.REQUIRE_TOPOLOGY)}: Invalid value: "{NOWHERE}": must be one of {_LEVELS}'),
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
            f'{_at(names.REQUIRE_TOPOLOGY)}: Invalid value: "auto": must name a level ({_LEVELS}): '
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
            f"{_at(names.REQUIRE_TOPOLOGY)}: Invalid value: {shortened('x' * 200_000)}: name part must be no more than 63 bytes"
        ),
    ),
    row(
        "level-in-a-queue-without-topology",
        WEBHOOK,
        job({names.REQUIRE_TOPOLOGY: RACK}, queue="plain"),
        refused(
            f'{_at(names.REQUIRE_TOPOLOGY)}: Invalid value: "{RACK}": '
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
            f"{_TEMPLATE}: Invalid value: must not contain more than one topology annotation: "
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
        refused(f'{_in(names.UNCONSTRAINED_TOPOLOGY)}: Invalid value: "yes": must be a boolean value'),
    ),
)

SLICES: tuple[InvalidRow, ...] = (
    row(
        "slice-size-text",
        WEBHOOK,
        job(on_template={names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "two"}),
        refused(f'{_in(names.SLICE_SIZE)}: Invalid value: "two": must be a numeric value'),
    ),
    row(
        "slice-size-endless",
        WEBHOOK,
        job(on_template={names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "9" * 5000}),
        refused(f"{_in(names.SLICE_SIZE)}: Invalid value: {shortened('9' * 5000)}: must be a numeric value"),
    ),
    row(
        "slice-size-zero",
        WEBHOOK,
        job(on_template={names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "0"}),
        refused(f'{_in(names.SLICE_SIZE)}: Invalid value: "0": must be greater than or equal to 1'),
    ),
    row(
        "slice-larger-than-job",
        WEBHOOK,
        job(on_template={names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "3"}),
        refused(f'{_in(names.SLICE_SIZE)}: Invalid value: "3": must not be greater than pod set count 2'),
    ),
    row(
        "slice-without-size",
        WEBHOOK,
        job(on_template={names.SLICE_REQUIRED_TOPOLOGY: RACK}),
        refused(
            f"{_in(names.SLICE_SIZE)}: Required value: must be set when '{names.SLICE_REQUIRED_TOPOLOGY}' is specified"
        ),
    ),
    row(
        "slice-without-level",
        WEBHOOK,
        job(on_template={names.SLICE_SIZE: "2"}),
        refused(
            f"{_in(names.SLICE_SIZE)}: Forbidden: may not be set when '{names.SLICE_REQUIRED_TOPOLOGY}' is not specified"
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
        refused(f'{_in(names.PODSET_GROUP_NAME)}: Invalid value: "7": must not be a number'),
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
        refused(f'{_at(names.REQUIRE_TOPOLOGY)}: Invalid value: "{NOWHERE}": must be one of {_LEVELS}'),
    ),
)

QUEUEING: tuple[InvalidRow, ...] = (
    row(
        "queue-name-bad-characters",
        WEBHOOK,
        job(queue="Bad_Queue"),
        refused(
            'metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: "Bad_Queue": a lowercase RFC '
            "1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for "
            "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ),
    ),
    row(
        "queue-name-no-label-value",
        WEBHOOK,
        job(queue="bad queue!"),
        refused(
            'metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: "bad queue!": a lowercase RFC '
            "1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for "
            "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ),
    ),
    row("missing-queue", CONDITION, job(queue="nobody"), Waits("Misconfigured", "LocalQueue nobody doesn't exist")),
    row(
        "missing-cluster-queue",
        CONDITION,
        local_queue("nobody"),
        job(queue="<id>"),
        Waits("Misconfigured", "ClusterQueue nobody doesn't exist"),
    ),
    row(
        "namespace-not-selected",
        CONDITION,
        cluster_queue(group("bad"), namespaceSelector={"matchLabels": {"team": "other"}}),
        local_queue(),
        job(queue="<id>", requests={"cpu": "1"}),
        Waits("Misconfigured", "workload namespace doesn't match ClusterQueue selector"),
    ),
    row(
        "namespace-selector-absent",
        CONDITION,
        cluster_queue(group("bad"), namespaceSelector=None),
        local_queue(),
        job(queue="<id>", requests={"cpu": "1"}),
        Waits("Misconfigured", "workload namespace doesn't match ClusterQueue selector"),
    ),
    row(
        "missing-priority-class",
        CONDITION,
        job(labels={names.PRIORITY_CLASS_LABEL: "nobody"}),
        Warns("WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "nobody" not found'),
    ),
    row(
        "missing-prebuilt-workload",
        CONDITION,
        job({names.PREBUILT_WORKLOAD: "nobody"}),
        Warns("PrebuiltWorkloadNotFound", 'prebuilt Workload "bad/nobody" not found'),
    ),
    row(
        "time-limit-text",
        WEBHOOK,
        job(labels={names.MAX_EXEC_TIME_LABEL: "soon"}),
        refused(
            'metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: Invalid value: "soon": '
            'strconv.Atoi: parsing "soon": invalid syntax'
        ),
    ),
    row(
        "time-limit-negative",
        WEBHOOK,
        job(labels={names.MAX_EXEC_TIME_LABEL: "0"}),
        refused("metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: Invalid value: 0: should be greater than 0"),
    ),
    row(
        "time-limit-endless",
        WEBHOOK,
        job(labels={names.MAX_EXEC_TIME_LABEL: "9" * 60}),
        refused(
            "metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: Invalid value: "
            '"999999999999999999999999999999999999999999999999999999999999": must be a number of 32 '
            "bits"
        ),
    ),
    row(
        "fewest-pods-text",
        WEBHOOK,
        job({names.MIN_PARALLELISM: "few"}),
        refused(
            'metadata.annotations[kueue.x-k8s.io/job-min-parallelism]: Invalid value: "few": '
            'strconv.Atoi: parsing "few": invalid syntax'
        ),
    ),
    row(
        "fewest-pods-endless",
        WEBHOOK,
        job({names.MIN_PARALLELISM: "1" * 5000}),
        refused(f"{_at(names.MIN_PARALLELISM)}: Invalid value: {shortened('1' * 5000)}: must be a number of 32 bits"),
    ),
    row(
        "fewest-pods-all",
        WEBHOOK,
        job({names.MIN_PARALLELISM: "2"}),
        refused(
            "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]: Invalid value: 2: should be between 0 and 1"
        ),
    ),
    row(
        "completions-equal-text",
        WEBHOOK,
        job({names.COMPLETIONS_EQUAL_PARALLELISM: "maybe"}),
        refused(
            "metadata.annotations[kueue.x-k8s.io/job-completions-equal-parallelism]: Invalid value: "
            '"maybe": strconv.ParseBool: parsing "maybe": invalid syntax'
        ),
    ),
    row(
        "gate-without-domain",
        WEBHOOK,
        job({names.ADMISSION_GATED_BY: "mine"}),
        refused(
            'metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Invalid value: "mine": must be a '
            'domain-prefixed path (such as "acme.io/foo")'
        ),
    ),
    row(
        "gate-added-later",
        WEBHOOK,
        job(queue="nobody"),
        ChangeStep(JOBS, {"metadata": {"annotations": {names.ADMISSION_GATED_BY: "example.com/mine"}}}),
        refused(
            "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Forbidden: cannot add admission "
            "gate after creation"
        ),
    ),
    row(
        "name-too-long",
        SERVER,
        Make(JOBS, {**job().body, "metadata": {"name": "x" * 300, "labels": {names.QUEUE_NAME_LABEL: "lq"}}}),
        refused("must be no more than"),
        embedded=TEMPLATES_OPEN,
    ),
    row(
        "annotations-too-long",
        SERVER,
        job({"example.com/novel": "x" * 300_000}),
        refused("metadata.annotations: Too long: may not be more than 262144 bytes"),
        embedded=TEMPLATES_OPEN,
    ),
    row(
        "part-of-a-jobset-that-is-not-there",
        WEBHOOK,
        Make(
            JOBS,
            {
                **job().body,
                "metadata": {
                    "labels": {names.QUEUE_NAME_LABEL: "lq"},
                    "ownerReferences": [
                        {
                            "apiVersion": "jobset.x-k8s.io/v1alpha2",
                            "kind": "JobSet",
                            "name": "nobody",
                            "uid": "00000000-0000-0000-0000-000000000000",
                            "controller": True,
                        }
                    ],
                },
            },
        ),
        refused("metadata.ownerReferences[0].name: Forbidden: the JobSet nobody does not exist"),
    ),
    row(
        "queue-changed-while-running",
        WEBHOOK,
        job({names.REQUIRE_TOPOLOGY: RACK}, pods=1),
        RunsStep(1),
        ChangeStep(JOBS, {"metadata": {"labels": {names.QUEUE_NAME_LABEL: "other"}}}),
        refused('metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: "other": field is immutable'),
    ),
    row(
        "suspend-flipped",
        CONDITION,
        job(queue="nobody"),
        ChangeStep(JOBS, {"spec": {"suspend": False}}, times=5),
        Waits("Misconfigured", "LocalQueue nobody doesn't exist"),
    ),
)

SHAPES: tuple[InvalidRow, ...] = (
    row(
        "requests-negative",
        SERVER,
        job(requests={"cpu": "-1"}),
        refused("must be greater than or equal to 0"),
        embedded=Waits(
            "Misconfigured",
            (
                "resources validation failed: Workload bad/<workload>: spec.podSets[0].template.spec: "
                "requests[cpu]: '-1': must be greater than or equal to 0"
            ),
        ),
    ),
    row(
        "requests-text",
        SERVER,
        job(requests={"cpu": "lots"}),
        Refused(400, "BadRequest", "quantities must match"),
        embedded=Waits(
            "Misconfigured",
            (
                "resources validation failed: Workload bad/<workload>: spec.podSets[0].template.spec: "
                "requests[cpu]: 'lots': must be a quantity such as 2, 500m, 1.5, 64Gi or 1e3"
            ),
        ),
    ),
    row(
        "requests-pods",
        SERVER,
        job(requests={"cpu": "1", "pods": "1"}),
        refused("must be a standard resource for containers"),
        embedded=TEMPLATES_OPEN,
    ),
    row(
        "requests-half-a-gpu",
        SERVER,
        job(requests={"cpu": "1", GPU: "500m"}),
        refused("must be an integer"),
        embedded=TEMPLATES_OPEN,
    ),
    row(
        "requests-huge",
        CONDITION,
        job(requests={"cpu": "9E"}),
        Waits(
            "ExceedsMaxQuota",
            (
                "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor bad, "
                "previously considered podsets requests (0) + current podset request (9223372036854775807m) > maximum "
                "capacity (1k)"
            ),
        ),
    ),
    row(
        "requests-not-covered",
        CONDITION,
        job(requests={"memory": "1Gi"}),
        Waits(
            "NoMatchingFlavor",
            ("couldn't assign flavors to pod set main: resource memory unavailable in ClusterQueue"),
        ),
    ),
    row(
        "node-selector-against-flavor",
        CONDITION,
        job(pod={"nodeSelector": {"cloud-provider.com/node-group": "other"}}),
        Waits("NoMatchingFlavor", "couldn't assign flavors to pod set main: flavor bad doesn't match node affinity"),
    ),
    row("no-parallelism", CONDITION, job(pods=1, parallelism=0), RunsStep(0)),
    row(
        "no-completions",
        CONDITION,
        job(pods=1, completions=0),
        Says(JOBS, "Complete", "True", "CompletionsReached", "Reached expected number of succeeded pods"),
    ),
    row(
        "endless-parallelism",
        CONDITION,
        job({names.REQUIRE_TOPOLOGY: RACK}, pods=2**31 - 1, completionMode="NonIndexed"),
        Waits(
            "ExceedsMaxQuota",
            (
                "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor bad, "
                "previously considered podsets requests (0) + current podset request (2147483647) > "
                "maximum capacity (1k)"
            ),
        ),
    ),
    row(
        "parallelism-negative",
        SERVER,
        job(pods=-1),
        refused("spec.parallelism: Invalid value: -1: must be greater than or equal to 0"),
    ),
    row(
        "template-unknown-field",
        SERVER,
        job(pod={"nodeSelektor": {"a": "b"}}, pods=1),
        Holds(JOBS, "spec.template.spec.nodeSelektor", None),
        embedded=TEMPLATES_OPEN,
    ),
)

ROWS = (*FIRST_FORMS, *CURRENT_FORMS, *SLICES, *GROUPS, *QUEUEING, *SHAPES)
