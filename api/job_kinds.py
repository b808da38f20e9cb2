"""JobKind: a declaration of a kind of job, as a cluster-scoped object or as a file of the same form.

It names the fields that suspend an object and that hold its pod templates and counts, and the meaning of its status. The
built-in kinds are such files (admission/integrations/kinds). admission/integrations/declared/declared.py interprets them.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from api.meta import Condition, KubeModel, KubeObject
from api.names import STOWAGE
from api.schema import CONDITIONS, DNS_SUBDOMAIN, LABEL_KEY, atomic, schema

PATH = r"^(\$\.|\^\.)?[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*$"
EACH = r"^[A-Za-z_][A-Za-z0-9_-]*(\[\]|\{\})?(\.[A-Za-z_][A-Za-z0-9_-]*(\[\]|\{\})?)*$"
"""A path of fields separated by dots; `[]` visits the items of a list, `{}` the values of a map."""

MAX_POD_SET_RULES = 8
MAX_EXPRESSION = 2000

FieldPath = Annotated[str, schema("Fields divided by dots.", maxLength=256, pattern=PATH)]
Expression = Annotated[str, schema("CEL over `object`.", minLength=1, maxLength=MAX_EXPRESSION)]
ANYTHING: Any = {"x-kubernetes-preserve-unknown-fields": True}


class Factor(KubeModel):
    """One factor of a pod set's number of pods."""

    path: Annotated[
        str,
        schema(
            "Path of the number: from the entry, `^.` from the enclosing entry, `$.` from the object.",
            mandatory=True,
            maxLength=256,
            pattern=PATH,
        ),
    ] = ""
    default: Annotated[int, schema("The number if the field is absent.", minimum=0, format="int32", default=1)] = 1
    least: Annotated[int | None, schema("A smaller number counts as this.", minimum=0, format="int32")] = None


class Sidecar(KubeModel):
    """A container that the kind's controller adds to each pod of a pod set; its requests count against quota and nodes."""

    name: Annotated[str, schema("Name of the container.", mandatory=True, maxLength=63)] = ""
    when: Annotated[
        str | None,
        schema("CEL over `object`: whether the container is added. Unset: always.", maxLength=MAX_EXPRESSION),
    ] = None
    resources: Annotated[
        str | None, schema("Path of its resources in the object, if any.", maxLength=256, pattern=PATH)
    ] = None
    requests: Annotated[dict[str, str], schema("Its requests if that field is absent.", mandatory=True)] = Field(
        default_factory=dict
    )


class RankOffset(KubeModel):
    """The rank of a pod set's first pod."""

    value: Annotated[int, schema("The rank.", mandatory=True, minimum=0, format="int32")] = 0
    when: Annotated[
        str | None, schema("CEL over `object`: whether it is not 0. Unset: always.", maxLength=MAX_EXPRESSION)
    ] = None


class DefaultTemplate(KubeModel):
    """The pod template that the kind's controller uses for an object without one."""

    image: Annotated[
        str | None, schema("CEL over `object`: the image of its first container.", maxLength=MAX_EXPRESSION)
    ] = None
    template: Annotated[dict[str, Any], schema("The template.", mandatory=True, **ANYTHING)] = Field(
        default_factory=dict
    )


class ElasticCount(KubeModel):
    """Pods whose number may change while the job runs, if the job has the annotation elastic-job."""

    keys: Annotated[tuple[str, ...], schema("Keys of a map's elastic entries. Empty: all.", **atomic(maxItems=16))] = ()
    minimum: Annotated[
        str | None,
        schema(
            "Path of the minimum of the first factor of `count`, with which a job may start that does not fit.",
            maxLength=256,
            pattern=PATH,
        ),
    ] = None
    maximum: Annotated[
        str | None, schema("Path of the maximum of the first factor of `count`.", maxLength=256, pattern=PATH)
    ] = None
    parts: Annotated[
        bool,
        schema(
            "Whether the number is that of the pod set of the same name of one of its `children`, where there is one that is "
            "not suspended."
        ),
    ] = False


class PodSetRule(KubeModel):
    """Where the kind's pod sets are: one template, or one for each item of a list or map."""

    each: Annotated[
        str | None,
        schema(
            "The entries: `spec.groups[]` of a list, `spec.roles{}` of a map, `spec.groups[].roles[]` of nested lists. "
            "Unset: the object itself is the only entry.",
            maxLength=256,
            pattern=EACH,
        ),
    ] = None
    name: Annotated[
        str | None,
        schema("The pod set's name if the object is the only entry.", maxLength=63, pattern=DNS_SUBDOMAIN),
    ] = None
    name_path: Annotated[
        str,
        schema("Path of the name of a list's entry. Entries of a map use their key.", maxLength=256, pattern=PATH),
    ] = "name"
    order: Annotated[
        tuple[str, ...],
        schema(
            "Allowed keys of the map, in the order of the pod sets. Empty: all keys, sorted.", **atomic(maxItems=16)
        ),
    ] = ()
    optional: Annotated[bool, schema("Whether there may be no entries.")] = False
    when: Annotated[
        str | None,
        schema("CEL over `object`: whether these pod sets exist. Unset: always.", maxLength=MAX_EXPRESSION),
    ] = None
    function: Annotated[
        str | None,
        schema(
            "A built-in function of Stowage that returns the pod sets, for kinds that paths cannot describe. "
            "Excludes all other fields but `when`.",
            maxLength=63,
        ),
    ] = None
    template: Annotated[
        str | None, schema("Path of the pod template, from the entry.", maxLength=256, pattern=PATH)
    ] = None
    default_template: Annotated[
        DefaultTemplate | None, schema("The template if the entry has none; a start writes it to the entry.")
    ] = None
    count: Annotated[
        tuple[Factor, ...],
        schema("The number of pods is the product of these factors, 1 if empty.", **atomic(maxItems=4)),
    ] = ()
    elastic: Annotated[
        ElasticCount | None,
        schema("The number of pods may change while the job runs. Numbers outside the bounds are clamped."),
    ] = None
    suspended: Annotated[
        str | None,
        schema(
            "Path of a boolean, from the entry: an entry where it is true has no pods.", maxLength=256, pattern=PATH
        ),
    ] = None
    rank_offset: Annotated[
        RankOffset | None,
        schema("Subtracted from the ranks of its pods, if pods of another pod set are numbered first."),
    ] = None
    sub_group_label: Annotated[
        str | None,
        schema("The label with the index of a pod's group in its pod set.", maxLength=316, pattern=LABEL_KEY),
    ] = None
    sub_groups: Annotated[
        Factor | None, schema("The number of these groups; each group is a slice of the topology request.")
    ] = None
    sidecars: Annotated[
        tuple[Sidecar, ...], schema("Containers that the kind's controller adds to its pods.", **atomic(maxItems=8))
    ] = ()


class Test(KubeModel):
    """A test of an object's status. Exactly one of `condition`, `path` and `expression` is set."""

    condition: Annotated[str | None, schema("True if a condition of this type is True.", maxLength=316)] = None
    path: Annotated[
        str | None, schema("True if the field at this path has one of `values`.", maxLength=256, pattern=PATH)
    ] = None
    values: Annotated[tuple[str, ...], schema("See `path`.", **atomic(maxItems=32))] = ()
    expression: Annotated[str | None, schema("CEL over `object` with a boolean result.", maxLength=MAX_EXPRESSION)] = (
        None
    )


class WriteBack(KubeModel):
    """A list to which a start writes changes of the pods, if they cannot be written to the templates.

    Without `entry` the list has an item for each pod set, in order, with the fields labels, annotations, nodeSelector,
    tolerations and schedulingGates. With `entry` one item has all of them, in a list with an item for each pod set, by name.
    """

    list: Annotated[
        str,
        schema(
            "Path of the list: from the object, `^.` from the object around the pod set.",
            mandatory=True,
            maxLength=256,
            pattern=PATH,
        ),
    ] = ""
    entry: Annotated[dict[str, str] | None, schema("Fields that identify the entry, which is appended if missing.")] = (
        None
    )
    items: Annotated[
        str | None, schema("Path of the items, from the entry: one for each pod set.", maxLength=256, pattern=PATH)
    ] = None
    template: Annotated[str | None, schema("Path of the pod template, from the item.", maxLength=256, pattern=PATH)] = (
        None
    )


class Requirement(KubeModel):
    """A condition for queueing an object; others are refused at creation."""

    path: Annotated[str, schema("The field to name in the error.", mandatory=True, maxLength=256, pattern=PATH)] = ""
    expression: Annotated[
        str, schema("CEL over `object` that is true for a valid object.", mandatory=True, maxLength=MAX_EXPRESSION)
    ] = ""
    message: Annotated[str, schema("What is allowed.", mandatory=True, maxLength=1024)] = ""


class StatusRules(KubeModel):
    """The meaning of an object's status. A test that fails to evaluate is false."""

    active: Annotated[Test, schema("Whether pods of the job may still run.", mandatory=True)] = Field(
        default_factory=Test
    )
    active_parts: Annotated[
        bool,
        schema(
            "Whether the job's `children`, if there are any, decide in place of `active`: the job is active as long as one of "
            "them is active or not suspended."
        ),
    ] = False
    ready: Annotated[Test | None, schema("Whether all pods of the job are ready or have succeeded.")] = None
    succeeded: Annotated[Test | None, schema("Whether the job has succeeded.")] = None
    failed: Annotated[Test | None, schema("Whether the job has failed.")] = None
    on_hold: Annotated[
        Test | None, schema("Whether the job is unable to have pods now. It returns its quota while this is true.")
    ] = None
    message: Annotated[
        str | None,
        schema("Path of the reason why it ended. Unset: the condition's message.", maxLength=256, pattern=PATH),
    ] = None


class Suspend(KubeModel):
    """The field that suspends an object."""

    path: Annotated[str, schema("Path of the field.", mandatory=True, maxLength=256, pattern=PATH)] = ""
    suspended: Annotated[Any, schema("The value that suspends it.", default=True, **ANYTHING)] = True
    running: Annotated[Any, schema("The value that lets it run.", default=False, **ANYTHING)] = False


class ChildKind(KubeModel):
    """A kind of object that the kind's controller creates and that is not queued itself."""

    group: Annotated[str, schema("Its API group; `*` for any.", maxLength=253)] = ""
    kind: Annotated[str, schema("Its kind; `*` for any.", mandatory=True, maxLength=63)] = ""


class PodIdentification(KubeModel):
    """How to recognize pods that the kind's controller created."""

    name_label: Annotated[
        str | None, schema("The label of a pod with the name of its job.", maxLength=316, pattern=LABEL_KEY)
    ] = None
    labels: Annotated[dict[str, str] | None, schema("Labels that each of its pods has.")] = None
    added: Annotated[
        dict[str, str] | None,
        schema("Largest requests of init containers that the kind's controller adds to pods."),
    ] = None


class Scale(KubeModel):
    """Scaling of objects that no field suspends, by the fields of their scale subresource. Their pods wait as one group."""

    replicas: Annotated[Factor, schema("The number of pods.")] = Field(
        default_factory=lambda: Factor(path="spec.replicas")
    )
    selector: Annotated[
        str | None,
        schema("Path of the pods' label selector, as text.", maxLength=256, pattern=PATH),
    ] = None
    template: Annotated[
        str | None,
        schema(
            "Path of the pod template. Unset: pods name the queue themselves, and one of them represents all.",
            maxLength=256,
            pattern=PATH,
        ),
    ] = None
    minimum: Annotated[
        str | None,
        schema(
            "Path of the minimum number of pods, with which an elastic object may start that does not fit.",
            maxLength=256,
            pattern=PATH,
        ),
    ] = None


class JobKindSpec(KubeModel):
    """One kind of job: with `scale`, or with `suspend`, `podSets` and `status`."""

    group: Annotated[str, schema("API group of the kind.", mandatory=True, maxLength=253, pattern=DNS_SUBDOMAIN)] = ""
    version: Annotated[str, schema("API version of the kind.", mandatory=True, minLength=1, maxLength=63)] = ""
    plural: Annotated[str, schema("Plural name, as in URLs.", mandatory=True, minLength=1, maxLength=63)] = ""
    kind: Annotated[str, schema("The kind.", mandatory=True, minLength=1, maxLength=63)] = ""
    scale: Annotated[
        Scale | None,
        schema("How an object without a suspend field is scaled. Excludes all other fields but `rankLabel`."),
    ] = None
    suspend: Annotated[Suspend, schema("How an object is suspended.")] = Field(default_factory=Suspend)
    pod_sets: Annotated[
        tuple[PodSetRule, ...],
        schema("The pod sets, in order.", **atomic(minItems=1, maxItems=MAX_POD_SET_RULES)),
    ] = ()
    status: Annotated[StatusRules, schema("The meaning of the status.")] = Field(default_factory=StatusRules)
    priority_class: Annotated[
        tuple[FieldPath, ...],
        schema("Paths that may name a PriorityClass; they precede the templates.", **atomic(maxItems=8)),
    ] = ()
    rank_label: Annotated[
        str | None, schema("The label with a pod's rank in its pod set.", maxLength=316, pattern=LABEL_KEY)
    ] = None
    pods: Annotated[PodIdentification, schema("How to recognize pods of the kind.")] = Field(
        default_factory=PodIdentification
    )
    children: Annotated[
        tuple[ChildKind, ...],
        schema("Kinds of objects that the kind's controller creates, except pods.", **atomic(maxItems=8)),
    ] = ()
    managed_by: Annotated[
        str | None, schema("The value of managedBy that stands for the kind's own controller.", maxLength=253)
    ] = None
    managed_by_path: Annotated[str, schema("Path of managedBy.", maxLength=256, pattern=PATH)] = "spec.managedBy"
    write_back: Annotated[
        WriteBack | None, schema("Where a start writes changes of the pods. Unset: to the templates.")
    ] = None
    skip_when: Annotated[
        Test | None,
        schema("Whether an object is not managed although it names a queue, because it has no pods of its own."),
    ] = None
    requires: Annotated[
        tuple[Requirement, ...], schema("Conditions for queueing an object.", **atomic(maxItems=8))
    ] = ()
    frozen: Annotated[
        tuple[FieldPath, ...], schema("Fields that are immutable while an object runs.", **atomic(maxItems=16))
    ] = ()


class JobKindStatus(KubeModel):
    """Condition Active: whether objects of the kind are managed, or why not."""

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()


class JobKind(KubeObject):
    """A declared kind of job."""

    API_VERSION: ClassVar[str] = f"{STOWAGE}/v1alpha1"
    KIND: ClassVar[str] = "JobKind"

    spec: Annotated[JobKindSpec, schema("The kind.", mandatory=True)] = Field(default_factory=JobKindSpec)
    status: JobKindStatus = Field(default_factory=JobKindStatus)
