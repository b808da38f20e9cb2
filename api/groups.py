"""PodGroup: pods of which a minimum number starts together (v1alpha1, in the two groups that manifests use).

Both groups are served with the same fields, each as its own kind. Stowage creates a PodGroup for a gang whose pods only have
labels (label GANG_MADE). admission/integrations/pods/gang.py defines gangs and how a pod names its gang.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from api.meta import Condition, KubeModel, KubeObject
from api.names import COSCHEDULING, COSCHEDULING_SIGS, COSCHEDULING_VERSION
from api.schema import CONDITIONS, INT_OR_STRING, Int32, Quantity, Time, schema
from api.workloads import RequeueState


class Phase:
    """Phases of a PodGroup."""

    PENDING = "Pending"
    PRE_SCHEDULING = "PreScheduling"
    SCHEDULING = "Scheduling"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    FINISHED = "Finished"
    FAILED = "Failed"


PHASES = (
    Phase.PENDING,
    Phase.PRE_SCHEDULING,
    Phase.SCHEDULING,
    Phase.SCHEDULED,
    Phase.RUNNING,
    Phase.UNKNOWN,
    Phase.FINISHED,
    Phase.FAILED,
)


class PodGroupSpec(KubeModel):
    """The number of pods that start together, and their time limit."""

    min_member: Annotated[
        int | None, schema("Fewest pods that start together.", mandatory=True, format="int32", minimum=1)
    ] = None
    schedule_timeout_seconds: Annotated[
        int | None,
        schema(
            "Seconds from opening the gates until minMember pods must be bound; else the gang is requeued.",
            format="int32",
            minimum=1,
        ),
    ] = None
    min_resources: Annotated[
        dict[str, Quantity],
        schema(
            "Requests of minMember pods together; informational, not enforced.",
            type="object",
            additionalProperties=INT_OR_STRING,
            maxProperties=64,
        ),
    ] = Field(default_factory=dict)


class PodGroupStatus(KubeModel):
    """Progress of the gang."""

    phase: Annotated[str | None, schema("State of the gang.", enum=["", *PHASES])] = None
    occupied_by: Annotated[str | None, schema("The owner of the pods: namespace/name.", maxLength=512)] = None
    scheduled: Annotated[Int32, schema("Pods that are bound to a node.", default=None)] = 0
    running: Annotated[Int32, schema("Pods that run.", default=None)] = 0
    succeeded: Annotated[Int32, schema("Pods that have succeeded.", default=None)] = 0
    failed: Annotated[Int32, schema("Pods that have failed.", default=None)] = 0
    requeue_state: Annotated[
        RequeueState | None, schema("Number of timeouts of the gang, and time of the next attempt.")
    ] = None
    schedule_start_time: Annotated[Time | None, schema("When the gates were last opened.")] = None
    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()


class PodGroup(KubeObject):
    """A group of pods that start together."""

    API_VERSION: ClassVar[str] = f"{COSCHEDULING}/{COSCHEDULING_VERSION}"
    KIND: ClassVar[str] = "PodGroup"

    spec: PodGroupSpec = Field(default_factory=PodGroupSpec)
    status: PodGroupStatus = Field(default_factory=PodGroupStatus)


class SigsPodGroup(PodGroup):
    """PodGroup in the API group of older manifests."""

    API_VERSION: ClassVar[str] = f"{COSCHEDULING_SIGS}/{COSCHEDULING_VERSION}"
