"""The answers and questions of the HTTP API as models, from which its OpenAPI document is made. docs/http-api.md explains them.

Amounts are integers: cpu in thousandths, everything else in its base unit. Times are RFC 3339. Field names are camelCase.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

_NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
Name = Annotated[str, StringConstraints(max_length=253, pattern=_NAME)]
Short = Annotated[str, StringConstraints(max_length=316)]


class Answer(BaseModel):
    """Base of all models."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Error(Answer):
    """Why a request was refused."""

    error: str
    message: str


class Session(Answer):
    """The user, and the cluster that is shown."""

    user: str
    sign_in: Literal["none", "token"]
    version: str
    cluster: str


class FlavorEntry(Answer):
    """A flavor with a topology. `levels` are label keys, widest first."""

    name: str
    topology: str
    levels: list[str]
    hosts: int


class Topologies(Answer):
    """The flavors with a topology."""

    flavors: list[FlavorEntry]


class Hosts(Answer):
    """The rows of a tree as columns. Amounts are lists by resource of lists by row.

    `state`: 0 usable, 1 cordoned, 2 failed; `why` says why, by position of the row. Free is total without used, foreign
    and held. `reserved` has positions in `reservations` of those that hold the row's nodes, by position of the row; `heldFor`
    has positions in `workloads` of those that wait until others have left the row.
    """

    name: list[str]
    domain: list[int]
    state: list[int]
    why: dict[str, str]
    reserved: dict[str, list[int]]
    held_for: dict[str, list[int]]
    total: list[list[int]]
    used: list[list[int]]
    foreign: list[list[int]]
    held: list[list[int]]


class Runs(Answer):
    """What runs where, as columns: row, position in `workloads`, pods, and amounts by resource."""

    host: list[int]
    workload: list[int]
    pods: list[int]
    amounts: list[list[int]]


class Reservation(Answer):
    """What holds hosts from `start` until `end`; empty texts where the viewer may not see it."""

    name: str
    start: str
    end: str


class Tree(Answer):
    """The tree of a flavor. `domains` are pairs of name and position of the parent, which comes first; -1 for none.

    `workloads` are pairs of `namespace/name` and ClusterQueue, with empty texts where the viewer may not see them.
    """

    flavor: str
    topology: str
    levels: list[str]
    resources: list[str]
    version: int
    domains: list[tuple[str, int]]
    hosts: Hosts
    workloads: list[tuple[str, str]]
    reservations: list[Reservation]
    runs: Runs


class HeldFor(Answer):
    """A workload that waits until others have left a host; its name is empty where the viewer may not see it."""

    workload: str
    cluster_queue: str


class HostRun(Answer):
    """Pods of a workload on a host; its name is empty where the viewer may not see it.

    What it leaves for another workload counts as held: it has no amounts there.
    """

    workload: str
    cluster_queue: str
    pods: int
    amounts: dict[str, int]


class Host(Answer):
    """A host in the tree of one flavor."""

    flavor: str
    path: list[str]
    name: str
    state: int
    why: str
    reservations: list[Reservation]
    held_for: list[HeldFor]
    total: dict[str, int]
    used: dict[str, int]
    foreign: dict[str, int]
    held: dict[str, int]
    runs: list[HostRun]


class HostAnswer(Answer):
    """A host, once for each flavor whose tree has it."""

    items: list[Host]


class ResourceOccupancy(Answer):
    """Sums of a resource over the usable hosts of a flavor, and what its unusable hosts have."""

    resource: str
    total: int
    used: int
    foreign: int
    held: int
    free: int
    unusable: int


class FlavorOccupancy(Answer):
    """The occupancy of a flavor."""

    flavor: str
    topology: str
    hosts: int
    resources: list[ResourceOccupancy]


class Occupancy(Answer):
    """The occupancy of all flavors with a topology."""

    flavors: list[FlavorOccupancy]


class QueueQuota(Answer):
    """Quota of a ClusterQueue. `pending` counts requests of waiting workloads, in the first flavor that has the resource."""

    flavor: str
    resource: str
    nominal: int
    used: int
    borrowed: int
    lent: int
    pending: int
    borrowing_limit: int | None
    lending_limit: int | None


class LocalQueue(Answer):
    """A LocalQueue of a namespace that the viewer may see."""

    namespace: str
    name: str
    pending: int
    admitted: int


class OtherQueues(Answer):
    """The LocalQueues of namespaces that the viewer may not see, together."""

    local_queues: int
    pending: int
    admitted: int


class ClusterQueue(Answer):
    """A ClusterQueue. `message` says why it is not active."""

    name: str
    cohort: str
    active: bool
    message: str
    strategy: str
    pending: int
    admitted: int
    quotas: list[QueueQuota]
    local_queues: list[LocalQueue]
    others: OtherQueues


class CohortQuota(Answer):
    """Quota and usage of a cohort's subtree."""

    flavor: str
    resource: str
    nominal: int
    used: int


class Cohort(Answer):
    """A cohort; `parent` is empty at the top."""

    name: str
    parent: str
    quotas: list[CohortQuota]


class Queues(Answer):
    """All ClusterQueues and cohorts."""

    cluster_queues: list[ClusterQueue]
    cohorts: list[Cohort]


class Note(Answer):
    """What a Workload with quota lacks, by a condition `stowage.dev/<type>` of its status."""

    type: Literal["PodsNotCreated", "PodsUnschedulable", "PodsHeld", "Moving", "SpareHosts", "TopologyKept"]
    reason: str
    message: str


class WorkloadRow(Answer):
    """A Workload. `reason` and `message` are those of the condition that says its state; `position` counts from 1.

    `hint` is what the controller wrote to the condition stowage.dev/Explanation of a Workload that waits; empty before it did.
    `heldHosts` counts the hosts that others are leaving for it. `started` is when a Workload that runs was admitted,
    `ranBefore` the seconds of its earlier runs, and `gpus` how many GPUs it was admitted with. `earliestStart` and
    `expectedStart` are the earliest and the latest start that is expected, as far as they are known.
    """

    namespace: str
    name: str
    job: str
    queue: str
    cluster_queue: str
    priority: int
    pods: int
    state: Literal["Pending", "Reserved", "Admitted", "Evicted", "Finished"]
    reason: str
    message: str
    hint: str
    notes: list[Note]
    since: str | None
    created: str | None
    started: str | None
    ran_before: int
    gpus: int
    position: int | None
    held_hosts: int
    earliest_start: str | None
    expected_start: str | None


class Workloads(Answer):
    """A page of Workloads. `total` counts all that the filters select; `next` is the offset of the next page."""

    items: list[WorkloadRow]
    total: int
    next: int | None


class Condition(Answer):
    """A condition of a Workload's status."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str | None


class PodEntry(Answer):
    """A bound pod of a Workload. A pod whose `host` is known is bound; the phase is not kept."""

    name: str
    host: str
    phase: str
    pod_set: str


class Place(Answer):
    """Pods of a pod set in a domain of the lowest level of its assignment."""

    flavor: str
    host: str
    pods: int
    pod_set: str


Explanation = Annotated[dict[str, Any], Field(description="As `stowage explain --json` prints it, without its title.")]


class WorkloadDetail(WorkloadRow):
    """One Workload. `explanation` is null unless it waits; pods are left out where the viewer may not list them."""

    explanation: Explanation | None
    conditions: list[Condition]
    pod_list: list[PodEntry]
    places: list[Place]


class Found(Answer):
    """A Workload, host, domain, queue or flavor whose name matches a search."""

    kind: Literal["Workload", "Host", "Domain", "ClusterQueue", "LocalQueue", "Flavor"]
    namespace: str
    name: str
    flavor: str


class SearchResult(Answer):
    """The matches, at most 50."""

    items: list[Found]


class WhatIfJob(Answer):
    """A Job of the usual form. `level` is the label key of a topology level, with `levelMode` required or preferred."""

    name: Name = "what-if"
    namespace: Annotated[str, StringConstraints(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    queue: Name
    pods: Annotated[int, Field(ge=1, le=100_000)]
    requests: Annotated[dict[Short, Annotated[str, StringConstraints(max_length=64)]], Field(max_length=16)]
    level: Short = ""
    level_mode: Literal["required", "preferred", ""] = ""
    priority_class: Short = ""
    seconds: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None


class WhatIf(Answer):
    """What to try: manifests as YAML, or a job by form."""

    yaml: Annotated[str, StringConstraints(max_length=256 * 1024)] | None = None
    job: WhatIfJob | None = None


class Tried(Answer):
    """The answer for one job: its explanation, and where its pods would run now."""

    explanation: Explanation
    places: list[Place]


class WhatIfAnswer(Answer):
    """The jobs that were tried, and what could not be read."""

    items: list[Tried]
    errors: list[str]
