"""Names and printer columns of each kind: plural, scope, short names. One entry adds a kind."""

from __future__ import annotations

from dataclasses import dataclass

from api.admission_checks import AdmissionCheck
from api.advance_reservations import AdvanceReservation
from api.elastic_quotas import ElasticQuota, SigsElasticQuota
from api.groups import PodGroup, SigsPodGroup
from api.job_kinds import JobKind
from api.meta import KubeObject
from api.names import STOWAGE
from api.queues import ClusterQueue, Cohort, LocalQueue, WorkloadPriorityClass
from api.topology import ResourceFlavor, Topology
from api.workloads import Workload


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column; a `wide` one is shown with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    description: str = ""


AGE = Column("Age", ".metadata.creationTimestamp", "date", description="Time since the object was created")


def condition(name: str, kind: str, description: str) -> Column:
    """Returns a column with the status of a condition."""
    return Column(name, f".status.conditions[?(@.type=='{kind}')].status", description=description)


@dataclass(frozen=True, slots=True)
class CrdKind:
    """The declaration of one CRD."""

    model: type[KubeObject]
    plural: str
    short_names: tuple[str, ...]
    columns: tuple[Column, ...] = (AGE,)
    namespaced: bool = False
    status: bool = True
    selectable: tuple[str, ...] = ()
    singular: str = ""
    """The name of one object, if not the kind in lower case."""
    categories: tuple[str, ...] = ()
    """Categories: `kubectl get CATEGORY` lists all kinds in it, of any group. kubectl looks for a category before a name, so a
    category whose name is a kind in two groups lists the objects of both. It takes no object's name after such a category.
    """

    @property
    def name(self) -> str:
        """The kind, such as `Workload`."""
        return self.model.KIND

    @property
    def group(self) -> str:
        """The API group."""
        return self.model.API_VERSION.partition("/")[0]

    @property
    def version(self) -> str:
        """The stored version."""
        return self.model.API_VERSION.partition("/")[2]


# If two groups serve the same name, kubectl takes only the first group by name (scheduling.sigs.k8s.io). So the singular and
# the short names of PodGroup and ElasticQuota, after which users write an object's name, belong to scheduling.x-k8s.io, and a
# category of the plural's name shows both groups.
KINDS = (
    CrdKind(Topology, "topologies", ("topo",), status=False),
    CrdKind(
        ResourceFlavor,
        "resourceflavors",
        ("flavor", "flavors", "rf"),
        (
            Column("Topology", ".spec.topologyName", description="Topology that the flavor names"),
            Column("Levels", ".spec.topology.levels", description="Levels that the flavor lists itself"),
            AGE,
        ),
        status=False,
    ),
    CrdKind(
        ClusterQueue,
        "clusterqueues",
        ("cq",),
        (
            Column("Cohort", ".spec.cohortName", description="Cohort that this queue belongs to"),
            Column("Strategy", ".spec.queueingStrategy", wide=True, description="Order of the queue"),
            Column("Pending Workloads", ".status.pendingWorkloads", "integer", description="Workloads that wait"),
            Column("Admitted Workloads", ".status.admittedWorkloads", "integer", True, "Workloads that are admitted"),
            AGE,
        ),
    ),
    CrdKind(
        LocalQueue,
        "localqueues",
        ("queue", "queues", "lq"),
        (
            Column("ClusterQueue", ".spec.clusterQueue", description="Queue that this one leads to"),
            Column("Pending Workloads", ".status.pendingWorkloads", "integer", description="Workloads that wait"),
            Column("Admitted Workloads", ".status.admittedWorkloads", "integer", description="Workloads admitted"),
            AGE,
        ),
        namespaced=True,
    ),
    CrdKind(
        Cohort,
        "cohorts",
        ("co",),
        (Column("Parent", ".spec.parentName", description="Cohort above this one"), AGE),
    ),
    CrdKind(
        Workload,
        "workloads",
        ("kwl", "kueueworkload", "kueueworkloads"),
        (
            Column("Queue", ".spec.queueName", description="LocalQueue that the workload waits in"),
            Column("Reserved in", ".status.admission.clusterQueue", description="ClusterQueue that holds its quota"),
            condition("Admitted", "Admitted", "Whether it may run"),
            condition("Finished", "Finished", "Whether it is done"),
            Column(
                "Reason",
                ".status.conditions[?(@.type=='QuotaReserved')].reason",
                description="Why it waits, while it has no quota",
            ),
            Column(
                "Message",
                ".status.conditions[?(@.type=='QuotaReserved')].message",
                wide=True,
                description="What it waits for in words",
            ),
            Column(
                "Placement",
                f".status.conditions[?(@.type=='{STOWAGE}/Placement')].message",
                wide=True,
                description="Domains of the topology that its pods go to",
            ),
            AGE,
        ),
        namespaced=True,
        selectable=(".status.admission.clusterQueue",),
    ),
    CrdKind(
        WorkloadPriorityClass,
        "workloadpriorityclasses",
        ("wpc",),
        (Column("Value", ".value", "integer", description="Priority of workloads of this class"), AGE),
        status=False,
    ),
    CrdKind(
        AdmissionCheck,
        "admissionchecks",
        ("ac",),
        (
            Column("Controller", ".spec.controllerName", description="The controller that answers the check"),
            condition("Active", "Active", "Whether the controller is ready to answer"),
            AGE,
        ),
    ),
    CrdKind(
        AdvanceReservation,
        "advancereservations",
        ("ar",),
        (
            Column("Start", ".spec.start", description="When the nodes must be free"),
            Column("End", ".spec.end", description="When they are free for all again"),
            condition("Active", "Active", "Whether the nodes are held"),
            Column(
                "Message", ".status.conditions[?(@.type=='Active')].message", wide=True, description="Why, or why not"
            ),
            AGE,
        ),
    ),
    CrdKind(
        JobKind,
        "jobkinds",
        ("jk",),
        (
            Column("Kind", ".spec.kind", description="Kind of job that is declared"),
            condition("Active", "Active", "Whether jobs of the kind are managed"),
            Column(
                "Message", ".status.conditions[?(@.type=='Active')].message", wide=True, description="Why, or why not"
            ),
            AGE,
        ),
    ),
    *(
        CrdKind(
            model,
            "elasticquotas",
            short_names,
            (
                Column("Used", ".status.used", description="What the namespace holds"),
                Column("Max", ".spec.max", description="The most it may use"),
                AGE,
            ),
            namespaced=True,
            singular=singular,
            categories=("quotas", "elasticquotas"),
        )
        for model, singular, short_names in (
            (ElasticQuota, "elasticquota", ("eq", "eqs")),
            (SigsElasticQuota, "sigselasticquota", ("seq",)),
        )
    ),
    *(
        CrdKind(
            model,
            "podgroups",
            short_names,
            (
                Column("Phase", ".status.phase", description="Phase of the gang"),
                Column("MinMember", ".spec.minMember", "integer", description="Fewest pods that start together"),
                Column("Running", ".status.running", "integer", description="Pods that run"),
                Column("Scheduled", ".status.scheduled", "integer", wide=True, description="Pods that are bound"),
                Column("Message", ".status.conditions[?(@.type=='Started')].message", description="What it waits for"),
                AGE,
            ),
            namespaced=True,
            singular=singular,
            categories=("gangs", "podgroups"),
        )
        for model, singular, short_names in (
            (PodGroup, "podgroup", ("pg", "pgs")),
            (SigsPodGroup, "sigspodgroup", ("spg",)),
        )
    ),
)
