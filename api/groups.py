"""PodGroup: the pods of which at least so many start together, or none (v1alpha1, in the two groups that manifests name).

Both groups are served with the same fields, each as a kind of its own. A gang whose pods carry only labels gets one made for
it (label GANG_MADE). What a gang is, and how a pod names its own, is said in admission/integrations/gang.py.
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
    """How many have to start together, and how long they may take for it."""

    min_member: Annotated[
        int | None, schema("Fewest pods that start together.", mandatory=True, format="int32", minimum=1)
    ] = None
    schedule_timeout_seconds: Annotated[
        int | None,
        schema(
            "Seconds from the opening of the gates until so many are bound; then all go back.",
            format="int32",
            minimum=1,
        ),
    ] = None
    min_resources: Annotated[
        dict[str, Quantity],
        schema(
            "What minMember pods request together; for information, not enforced.",
            type="object",
            additionalProperties=INT_OR_STRING,
            maxProperties=64,
        ),
    ] = Field(default_factory=dict)


class PodGroupStatus(KubeModel):
    """Where the gang stands."""

    phase: Annotated[str | None, schema("Where the gang stands.", enum=["", *PHASES])] = None
    occupied_by: Annotated[str | None, schema("The owner of the pods: namespace/name.", maxLength=512)] = None
    scheduled: Annotated[Int32, schema("Pods that are bound to a node.", default=None)] = 0
    running: Annotated[Int32, schema("Pods that run.", default=None)] = 0
    succeeded: Annotated[Int32, schema("Pods that have succeeded.", default=None)] = 0
    failed: Annotated[Int32, schema("Pods that have failed.", default=None)] = 0
    requeue_state: Annotated[
        RequeueState | None, schema("How often too few pods were bound in time, and when the next try comes.")
    ] = None
    schedule_start_time: Annotated[Time | None, schema("When the gates were opened (last).")] = None
    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()


class PodGroup(KubeObject):
    """Pods that start together."""

    API_VERSION: ClassVar[str] = f"{COSCHEDULING}/{COSCHEDULING_VERSION}"
    KIND: ClassVar[str] = "PodGroup"

    spec: PodGroupSpec = Field(default_factory=PodGroupSpec)
    status: PodGroupStatus = Field(default_factory=PodGroupStatus)


class SigsPodGroup(PodGroup):
    """The same in the group that older manifests name."""

    API_VERSION: ClassVar[str] = f"{COSCHEDULING_SIGS}/{COSCHEDULING_VERSION}"
