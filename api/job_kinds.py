"""JobKind: a kind of job described by data, as a cluster-scoped object and as a file of the same shape.

It says where objects of the kind are suspended, where their pod templates and counts stand, and what their status means. The
built-in kinds are files of this shape (admission/integrations/kinds). admission/integrations/declared.py reads objects by it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from api.meta import Condition, KubeModel, KubeObject
from api.names import STOWAGE
from api.schema import CONDITIONS, DNS_SUBDOMAIN, LABEL_KEY, atomic, schema

PATH = r"^(\$\.|\^\.)?[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*$"
EACH = r"^[A-Za-z_][A-Za-z0-9_-]*(\[\]|\{\})?(\.[A-Za-z_][A-Za-z0-9_-]*(\[\]|\{\})?)*$"
"""Fields divided by dots; `[]` goes through the entries of a list, `{}` through those of a map."""

MAX_POD_SET_RULES = 8
MAX_EXPRESSION = 2000

FieldPath = Annotated[str, schema("Fields divided by dots.", maxLength=256, pattern=PATH)]
Expression = Annotated[str, schema("CEL over `object`.", minLength=1, maxLength=MAX_EXPRESSION)]
ANYTHING: Any = {"x-kubernetes-preserve-unknown-fields": True}


class Factor(KubeModel):
    """One factor of a number of pods."""

    path: Annotated[
        str,
        schema(
            "Where the number stands: from the entry, `^.` from the entry around it, `$.` from the object.",
            mandatory=True,
            maxLength=256,
            pattern=PATH,
        ),
    ] = ""
    default: Annotated[int, schema("The number where none is written.", minimum=0, format="int32", default=1)] = 1
    least: Annotated[int | None, schema("A smaller number counts as this.", minimum=0, format="int32")] = None


class Sidecar(KubeModel):
    """A container that the kind's own controller adds to each pod of a pod set: it counts against quota and nodes."""

    name: Annotated[str, schema("Name of the container.", mandatory=True, maxLength=63)] = ""
    when: Annotated[
        str | None, schema("CEL over `object`: whether it is added. Unset: always.", maxLength=MAX_EXPRESSION)
    ] = None
    resources: Annotated[
        str | None, schema("Where its resources stand in the object, if anywhere.", maxLength=256, pattern=PATH)
    ] = None
    requests: Annotated[dict[str, str], schema("Its requests where none stand there.", mandatory=True)] = Field(
        default_factory=dict
    )


class RankOffset(KubeModel):
    """The rank of the first pod of a pod set."""

    value: Annotated[int, schema("The rank.", mandatory=True, minimum=0, format="int32")] = 0
    when: Annotated[
        str | None, schema("CEL over `object`: whether it is not 0. Unset: always.", maxLength=MAX_EXPRESSION)
    ] = None


class DefaultTemplate(KubeModel):
    """The pod template that the kind's own controller takes where an object has none."""

    image: Annotated[
        str | None, schema("CEL over `object`: the image of its first container.", maxLength=MAX_EXPRESSION)
    ] = None
    template: Annotated[dict[str, Any], schema("The template.", mandatory=True, **ANYTHING)] = Field(
        default_factory=dict
    )


class ElasticCount(KubeModel):
    """Pods whose number may change while the job runs, where the job has the annotation elastic-job."""

    keys: Annotated[
        tuple[str, ...], schema("Of a map: only the entries with these keys. Empty: all.", **atomic(maxItems=16))
    ] = ()
    minimum: Annotated[
        str | None,
        schema(
            "Where the least number stands, for the first number of `count`. A job that does not fit starts with no fewer.",
            maxLength=256,
            pattern=PATH,
        ),
    ] = None
    maximum: Annotated[
        str | None, schema("Where the largest number stands, likewise.", maxLength=256, pattern=PATH)
    ] = None


class PodSetRule(KubeModel):
    """Where pod sets of the kind stand: one template, or one for each entry of a list or map."""

    each: Annotated[
        str | None,
        schema(
            "The entries: `spec.groups[]` of a list, `spec.roles{}` of a map, `spec.groups[].roles[]` of lists in lists. "
            "Unset: the object itself is the one entry.",
            maxLength=256,
            pattern=EACH,
        ),
    ] = None
    name: Annotated[
        str | None,
        schema("The pod set's name, where the object is the one entry.", maxLength=63, pattern=DNS_SUBDOMAIN),
    ] = None
    name_path: Annotated[
        str,
        schema("Where an entry of a list has its name. Entries of a map have their key.", maxLength=256, pattern=PATH),
    ] = "name"
    order: Annotated[
        tuple[str, ...],
        schema(
            "The keys that the map may have, in the order of the pod sets. Empty: any, by name.", **atomic(maxItems=16)
        ),
    ] = ()
    optional: Annotated[bool, schema("Whether there may be no entry.")] = False
    when: Annotated[
        str | None,
        schema("CEL over `object`: whether there are these pod sets. Unset: always.", maxLength=MAX_EXPRESSION),
    ] = None
    function: Annotated[
        str | None,
        schema(
            "A function of Stowage that says which pod sets there are, for kinds whose pods no path leads to. "
            "Then all but `when` is unset.",
            maxLength=63,
        ),
    ] = None
    template: Annotated[
        str | None, schema("Where the pod template stands, from the entry.", maxLength=256, pattern=PATH)
    ] = None
    default_template: Annotated[
        DefaultTemplate | None, schema("The template where none stands there. The start writes it there.")
    ] = None
    count: Annotated[
        tuple[Factor, ...], schema("The number of pods is the product of these; of none it is 1.", **atomic(maxItems=4))
    ] = ()
    elastic: Annotated[
        ElasticCount | None,
        schema("Their number may change while the job runs. A number beyond its bounds counts as the bound."),
    ] = None
    rank_offset: Annotated[
        RankOffset | None,
        schema("What is subtracted from the ranks of its pods, where the pods of another come first."),
    ] = None
    sub_group_label: Annotated[
        str | None,
        schema("The label with the number of a pod's group in its pod set.", maxLength=316, pattern=LABEL_KEY),
    ] = None
    sub_groups: Annotated[
        Factor | None, schema("The number of such groups; slices of the topology are their pods.")
    ] = None
    sidecars: Annotated[
        tuple[Sidecar, ...], schema("Containers that are added to its pods.", **atomic(maxItems=8))
    ] = ()


class Test(KubeModel):
    """A question to the status of an object. Exactly one of `condition`, `path` and `expression` is set."""

    condition: Annotated[str | None, schema("Holds where a condition of this type is True.", maxLength=316)] = None
    path: Annotated[str | None, schema("Holds where one of `values` stands here.", maxLength=256, pattern=PATH)] = None
    values: Annotated[tuple[str, ...], schema("See `path`.", **atomic(maxItems=32))] = ()
    expression: Annotated[
        str | None, schema("CEL over `object` that says true or false.", maxLength=MAX_EXPRESSION)
    ] = None


class WriteBack(KubeModel):
    """A list that takes what a start adds to the pods, where that cannot be written into the templates.

    Without `entry` it has an entry for each pod set, in the order of these, with the fields labels, annotations, nodeSelector,
    tolerations and schedulingGates. With `entry` one entry holds them all, in a list with an item for each pod set, by name.
    """

    list: Annotated[
        str,
        schema(
            "Where the list stands: from the object, `^.` from what the pod set stands in.",
            mandatory=True,
            maxLength=256,
            pattern=PATH,
        ),
    ] = ""
    entry: Annotated[
        dict[str, str] | None, schema("The fields by which the entry is known. It is appended where it is missing.")
    ] = None
    items: Annotated[
        str | None, schema("Where the items stand, from the entry: one for each pod set.", maxLength=256, pattern=PATH)
    ] = None
    template: Annotated[
        str | None, schema("Where the pod template stands, from the item.", maxLength=256, pattern=PATH)
    ] = None


class Requirement(KubeModel):
    """What an object must be to be queued; one that is not is refused at its creation."""

    path: Annotated[str, schema("The field that is to blame.", mandatory=True, maxLength=256, pattern=PATH)] = ""
    expression: Annotated[
        str, schema("CEL over `object` that holds of a good one.", mandatory=True, maxLength=MAX_EXPRESSION)
    ] = ""
    message: Annotated[str, schema("What is allowed.", mandatory=True, maxLength=1024)] = ""


class StatusRules(KubeModel):
    """What the status of an object says. A test that cannot be answered does not hold."""

    active: Annotated[Test, schema("Whether pods of it may still run.", mandatory=True)] = Field(default_factory=Test)
    ready: Annotated[Test | None, schema("Whether all of its pods are ready or have succeeded.")] = None
    succeeded: Annotated[Test | None, schema("Whether it has ended well.")] = None
    failed: Annotated[Test | None, schema("Whether it has ended badly.")] = None
    on_hold: Annotated[
        Test | None, schema("Whether it can have no pods as it is. Its quota is free until it no longer holds.")
    ] = None
    message: Annotated[
        str | None,
        schema("Where it says why it ended. Unset: the message of the condition.", maxLength=256, pattern=PATH),
    ] = None


class Suspend(KubeModel):
    """The field that suspends an object."""

    path: Annotated[str, schema("Where the field stands.", mandatory=True, maxLength=256, pattern=PATH)] = ""
    suspended: Annotated[Any, schema("The value that suspends it.", default=True, **ANYTHING)] = True
    running: Annotated[Any, schema("The value that lets it run.", default=False, **ANYTHING)] = False


class ChildKind(KubeModel):
    """A kind of object that the kind's own controller makes, and that is not queued itself."""

    group: Annotated[str, schema("Its API group; `*` for any.", maxLength=253)] = ""
    kind: Annotated[str, schema("Its kind; `*` for any.", mandatory=True, maxLength=63)] = ""


class PodIdentification(KubeModel):
    """By what pods of the kind are known to be made by its own controller."""

    name_label: Annotated[
        str | None, schema("The label by which a pod names its job.", maxLength=316, pattern=LABEL_KEY)
    ] = None
    labels: Annotated[dict[str, str] | None, schema("Labels that each of its pods has.")] = None
    added: Annotated[
        dict[str, str] | None,
        schema("Requests of the init containers that the kind's own controller adds to pods, at most."),
    ] = None


class Scale(KubeModel):
    """How objects are scaled that no field suspends: the fields of their scale subresource. Their pods wait as one group."""

    replicas: Annotated[Factor, schema("The number of pods.")] = Field(
        default_factory=lambda: Factor(path="spec.replicas")
    )
    selector: Annotated[
        str | None,
        schema("Where the label selector of the pods stands, as text.", maxLength=256, pattern=PATH),
    ] = None
    template: Annotated[
        str | None,
        schema(
            "Where the pod template stands. Unset: its pods name the queue themselves, and one of them stands for all.",
            maxLength=256,
            pattern=PATH,
        ),
    ] = None
    minimum: Annotated[
        str | None,
        schema(
            "Where the least number of pods stands. An elastic one that does not fit starts with no fewer.",
            maxLength=256,
            pattern=PATH,
        ),
    ] = None


class JobKindSpec(KubeModel):
    """One kind of job: with `scale`, or else with `suspend`, `podSets` and `status`."""

    group: Annotated[str, schema("API group of the kind.", mandatory=True, maxLength=253, pattern=DNS_SUBDOMAIN)] = ""
    version: Annotated[str, schema("API version of the kind.", mandatory=True, minLength=1, maxLength=63)] = ""
    plural: Annotated[str, schema("Plural name, as in URLs.", mandatory=True, minLength=1, maxLength=63)] = ""
    kind: Annotated[str, schema("The kind.", mandatory=True, minLength=1, maxLength=63)] = ""
    scale: Annotated[
        Scale | None,
        schema("How an object is scaled that cannot be suspended. Then only `rankLabel` stands beside it."),
    ] = None
    suspend: Annotated[Suspend, schema("How an object is suspended.")] = Field(default_factory=Suspend)
    pod_sets: Annotated[
        tuple[PodSetRule, ...],
        schema("Where the pod sets stand, in order.", **atomic(minItems=1, maxItems=MAX_POD_SET_RULES)),
    ] = ()
    status: Annotated[StatusRules, schema("What the status means.")] = Field(default_factory=StatusRules)
    priority_class: Annotated[
        tuple[FieldPath, ...],
        schema("Where a PriorityClass may be named, before the templates.", **atomic(maxItems=8)),
    ] = ()
    rank_label: Annotated[
        str | None, schema("The label with a pod's number in its pod set.", maxLength=316, pattern=LABEL_KEY)
    ] = None
    pods: Annotated[PodIdentification, schema("How pods of the kind are known.")] = Field(
        default_factory=PodIdentification
    )
    children: Annotated[
        tuple[ChildKind, ...], schema("Objects that it makes, but for pods.", **atomic(maxItems=8))
    ] = ()
    managed_by: Annotated[
        str | None, schema("The value of managedBy that means the kind's own controller.", maxLength=253)
    ] = None
    managed_by_path: Annotated[str, schema("Where managedBy stands.", maxLength=256, pattern=PATH)] = "spec.managedBy"
    write_back: Annotated[WriteBack | None, schema("Where a start is written. Unset: into the templates.")] = None
    skip_when: Annotated[
        Test | None, schema("Whether an object is not managed although it names a queue: it has no pods of its own.")
    ] = None
    requires: Annotated[
        tuple[Requirement, ...], schema("What an object must be to be queued.", **atomic(maxItems=8))
    ] = ()
    frozen: Annotated[
        tuple[FieldPath, ...], schema("What may not change while an object runs.", **atomic(maxItems=16))
    ] = ()


class JobKindStatus(KubeModel):
    """Condition Active: whether objects of the kind are managed, or why not."""

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()


class JobKind(KubeObject):
    """A kind of job described by data."""

    API_VERSION: ClassVar[str] = f"{STOWAGE}/v1alpha1"
    KIND: ClassVar[str] = "JobKind"

    spec: Annotated[JobKindSpec, schema("The kind.", mandatory=True)] = Field(default_factory=JobKindSpec)
    status: JobKindStatus = Field(default_factory=JobKindStatus)
