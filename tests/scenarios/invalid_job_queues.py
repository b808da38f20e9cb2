"""Bad queue names, numbers of pods and shapes of Jobs and JobSets. The vocabulary is invalid_input.py's."""

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
    cluster_queue,
    group,
    job,
    local_queue,
    refused,
    row,
    shortened,
)
from tests.scenarios.invalid_jobs import (
    CONDITION,
    SERVER,
    TEMPLATES_OPEN,
    WEBHOOK,
    at,
)
from tests.scenarios.site import GPU, RACK

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
        refused(f"{at(names.MIN_PARALLELISM)}: Invalid value: {shortened('1' * 5000)}: must be a number of 32 bits"),
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
                "capacity (1k); cpu: 9223372036854775807m asked, 32 at most on any host"
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


ROWS = (*QUEUEING, *SHAPES)
