"""AdvanceReservation: nodes that are held from one time until another, for maintenance or for a planned run.

A cluster-scoped object. engine/advance_reservations.py says which workloads may use the nodes, and when.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from api.meta import Condition, KubeModel, KubeObject
from api.names import STOWAGE
from api.schema import CONDITIONS, DNS_LABEL, DNS_SUBDOMAIN, atomic, rule, schema

MAX_LABELS = 8
MAX_NAMESPACES = 64
LONGEST_NAME = 253


class AdvanceReservationSpec(KubeModel):
    """Which nodes are held, when, for which namespaces, and whose quota counts them."""

    node_labels: Annotated[
        dict[str, str],
        schema(
            "Labels of the nodes: those that have all of them are held, as the label of a rack and its value.",
            mandatory=True,
            minProperties=1,
            maxProperties=MAX_LABELS,
        ),
    ] = Field(default_factory=dict)
    start: Annotated[str, schema("When the nodes must be free.", mandatory=True, format="date-time")] = ""
    end: Annotated[str, schema("When they are free for all again.", mandatory=True, format="date-time")] = ""
    namespaces: Annotated[
        tuple[Annotated[str, schema("Name of a namespace.", maxLength=63, pattern=DNS_LABEL)], ...],
        schema(
            "Namespaces whose jobs may run on the nodes if they name the reservation. Empty: no job, as for maintenance.",
            **atomic(maxItems=MAX_NAMESPACES),
        ),
    ] = ()
    cluster_queue: Annotated[
        str,
        schema(
            "ClusterQueue whose quota the nodes are charged to from the start to the end. Jobs of it that run there draw "
            "on that charge. Without it no quota is charged.",
            maxLength=LONGEST_NAME,
            pattern=DNS_SUBDOMAIN,
        ),
    ] = ""


class AdvanceReservationStatus(KubeModel):
    """Condition Active: whether the nodes are held, and which workloads run beyond the start."""

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()


class AdvanceReservation(KubeObject):
    """Nodes that are reserved for a later time."""

    API_VERSION: ClassVar[str] = f"{STOWAGE}/v1alpha1"
    KIND: ClassVar[str] = "AdvanceReservation"

    spec: Annotated[
        AdvanceReservationSpec,
        schema(
            "What is reserved.",
            mandatory=True,
            x_kubernetes_validations=[rule("self.start < self.end", "start must be before end")],
        ),
    ] = Field(default_factory=AdvanceReservationSpec)
    status: AdvanceReservationStatus = Field(default_factory=AdvanceReservationStatus)
