"""What is common to all kinds of job: defaults at creation, and what may be created and changed.

At creation a managed job is suspended, given the LocalQueue `default` where its namespace has one and it names none,
and (`Rules.gate_at_creation`) the topology gate with what is known of its annotations is put into every template that
asks for a topology explicitly. The Workload's name hangs on the job's uid, which is not there yet at creation (with
generateName not even the name is), so `topology-workload` and `workload` are written now only where the job names a
prebuilt Workload; else they are completed in the update that starts the job. The peer puts no gate in at creation: with
`gate_at_creation` off the defaults are exactly its own, which is how the conformance cases run.

Taking a job out of suspension by hand is never refused: its pods are gated where it asks for a topology, and the
controller suspends it again.

Managed is a job that names a queue (or any job with `manage_jobs_without_queue_name`) in a managed namespace and that
is no part of another managed job. Pure; review.py calls it, job.py and jobset.py describe the kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.webhook import annotations as topology
from admission.webhook import gates
from admission.webhook.annotations import QueueLevels, Template
from admission.webhook.fields import Errors, Path, invalid, unchanged
from admission.webhook.formats import subdomain
from admission.webhook.lookups import MULTIKUEUE_CONTROLLER, Lookups, selects
from admission.webhook.rules import Rules
from api import names
from api.meta import object_key
from api.requests import asks_for_topology

Job = dict[str, Any]
DEFAULT_QUEUE: Final = "default"

_METADATA: Final = Path("metadata")
_LABELS: Final = _METADATA.child("labels")
_ANNOTATIONS: Final = _METADATA.child("annotations")
_QUEUE: Final = _LABELS.key(names.QUEUE_NAME_LABEL)
_MAX_TIME: Final = _LABELS.key(names.MAX_EXEC_TIME_LABEL)
_PRIORITY: Final = _LABELS.key(names.PRIORITY_CLASS_LABEL)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job as the webhook sees it.

    `controller` is the value of spec.managedBy that means the kind's own controller. `create` judges what only this
    kind knows of a new object (job, its templates, rules), `update` of a change (old, new).
    """

    controller: str
    templates: Callable[[Job], list[Template]]
    create: Callable[[Job, Sequence[Template], Rules], Errors]
    update: Callable[[Job, Job], Errors]


def labels_of(job: Mapping[str, Any]) -> Mapping[str, str]:
    """metadata.labels."""
    return (job.get("metadata") or {}).get("labels") or {}


def annotations_of(job: Mapping[str, Any]) -> Mapping[str, str]:
    """metadata.annotations."""
    return (job.get("metadata") or {}).get("annotations") or {}


def queue_name(job: Mapping[str, Any]) -> str:
    """The LocalQueue the job names, or nothing."""
    return labels_of(job).get(names.QUEUE_NAME_LABEL, "")


def is_suspended(job: Mapping[str, Any]) -> bool:
    """Whether spec.suspend is set."""
    return bool((job.get("spec") or {}).get("suspend"))


def is_part(job: Mapping[str, Any], rules: Rules) -> bool:
    """Whether the job belongs to another job that is managed as a whole."""
    owners = (job.get("metadata") or {}).get("ownerReferences") or ()
    controllers = (owner for owner in owners if owner.get("controller"))
    return any((o.get("apiVersion", "").rpartition("/")[0], o.get("kind")) in rules.managed_owners for o in controllers)


def in_managed_namespace(namespace: str, lookups: Lookups, rules: Rules) -> bool:
    """Whether jobs of that namespace are ours; the name alone is known even before the namespace itself is."""
    if rules.managed_namespaces is None:
        return True
    labels = {**(lookups.namespace_labels(namespace) or {}), "kubernetes.io/metadata.name": namespace}
    return selects(rules.managed_namespaces, labels)


# ---- creation


def set_defaults(job: Job, namespace: str, kind: Kind, lookups: Lookups, rules: Rules) -> None:
    """Change a job that is being created in place; a job that is not managed stays as it is."""
    if is_part(job, rules) or not in_managed_namespace(namespace, lookups, rules):
        return
    if not queue_name(job) and object_key(namespace, DEFAULT_QUEUE) in lookups.local_queues:
        _put(job, "metadata", "labels", {names.QUEUE_NAME_LABEL: DEFAULT_QUEUE})
    if not (queue_name(job) or rules.manage_jobs_without_queue_name):
        return
    if not is_suspended(job):
        job.setdefault("spec", {})["suspend"] = True
    _hand_over(job, namespace, kind, lookups, rules)
    if rules.topology_aware and rules.gate_at_creation:
        _gate(job, kind, rules)


def _hand_over(job: Job, namespace: str, kind: Kind, lookups: Lookups, rules: Rules) -> None:
    """Leave the job to the controller of other clusters where its queue says so and nobody else is named."""
    spec = job.get("spec") or {}
    if not rules.multikueue or spec.get("managedBy", kind.controller) != kind.controller:
        return
    queue = lookups.cluster_queue_of(namespace, queue_name(job))
    if queue is not None and lookups.uses_multikueue(queue):
        job.setdefault("spec", {})["managedBy"] = MULTIKUEUE_CONTROLLER


def _gate(job: Job, kind: Kind, rules: Rules) -> None:
    asked, prebuilt = annotations_of(job), prebuilt_workload(job, rules)[1]
    workload = {names.TOPOLOGY_WORKLOAD: prebuilt, names.WORKLOAD_ANNOTATION: prebuilt} if prebuilt else {}
    for template in kind.templates(job):
        if asks_for_topology(template.annotations, asked):
            _gate_template(template, workload)


def _gate_template(template: Template, workload: Mapping[str, str]) -> None:
    _put(template.body, "metadata", "annotations", {names.TOPOLOGY_PODSET: template.pod_set, **workload})
    _put(template.body, "metadata", "labels", {names.PODSET_LABEL: template.pod_set})
    spec = template.body.setdefault("spec", {})
    present = spec.get("schedulingGates") or []
    if not any(gate.get("name") == names.TOPOLOGY_GATE for gate in present):
        spec["schedulingGates"] = [*present, {"name": names.TOPOLOGY_GATE}]


def _put(obj: Job, *path_and_entries: Any) -> None:
    *path, entries = path_and_entries
    for name in path:
        if not obj.get(name):
            obj[name] = {}
        obj = obj[name]
    obj.update(entries)


def prebuilt_workload(job: Mapping[str, Any], rules: Rules) -> tuple[Path, str]:
    """Where the job names a Workload that exists already, and that name (empty for none). The annotation goes first."""
    annotation = annotations_of(job).get(names.PREBUILT_WORKLOAD, "") if rules.identifier_annotations else ""
    if annotation:
        return _ANNOTATIONS.key(names.PREBUILT_WORKLOAD), annotation
    return _LABELS.key(names.PREBUILT_WORKLOAD), labels_of(job).get(names.PREBUILT_WORKLOAD, "")


def validate_create(job: Job, kind: Kind, rules: Rules, known: QueueLevels | None = None) -> Errors:
    """The errors of a new job; `known` are the levels of its queue's flavors where all of them are known."""
    if is_part(job, rules):
        return []
    templates = kind.templates(job)
    errors = [*_queue(job), *_max_time(job), *_prebuilt(job, rules)]
    if rules.admission_gated_by:
        errors += gates.validate(job.get("metadata") or {})
    if rules.topology_aware:
        errors += _topology(job, templates, rules, known)
    return [*errors, *kind.create(job, templates, rules)]


def queue_levels(job: Job, namespace: str, lookups: Lookups) -> QueueLevels | None:
    """The levels that the job's queue has, None while the queue or one of its flavors is not known."""
    queue = lookups.cluster_queue_of(namespace, queue_name(job))
    levels = lookups.levels_of(queue) if queue else None
    return None if queue is None or levels is None else QueueLevels(queue.metadata.name, levels)


def asks_anew(old: Job, new: Job, kind: Kind) -> bool:
    """Whether an update changes the queue or any annotation that may name a level."""
    return queue_name(old) != queue_name(new) or _asked(old, kind) != _asked(new, kind)


def _asked(job: Job, kind: Kind) -> list[Mapping[str, str]]:
    return [annotations_of(job), *(template.annotations for template in kind.templates(job))]


def _topology(job: Job, templates: Sequence[Template], rules: Rules, known: QueueLevels | None) -> Errors:
    asked = annotations_of(job)
    errors = topology.first_forms(_METADATA, asked, known)
    for template in templates:
        errors += topology.first_forms(template.metadata, template.annotations, known)
        errors += topology.template_annotations(
            template.metadata, template.annotations, asked, multi_layer=rules.multi_layer
        )
    if errors:
        return errors
    return [e for t in templates for e in topology.slice_bound(t.metadata, t.annotations, t.count)]


def _queue(job: Job) -> Errors:
    name = labels_of(job).get(names.QUEUE_NAME_LABEL)
    return subdomain(_QUEUE, name) if name else []


def _prebuilt(job: Job, rules: Rules) -> Errors:
    path, name = prebuilt_workload(job, rules)
    return subdomain(path, name) if name else []


def _max_time(job: Job) -> Errors:
    text = labels_of(job).get(names.MAX_EXEC_TIME_LABEL)
    if text is None:
        return []
    seconds, errors = integer(_MAX_TIME, text)
    if seconds is not None and seconds <= 0:
        return [invalid(_MAX_TIME, seconds, "should be greater than 0")]
    return errors


def integer(field: Path, text: str) -> tuple[int | None, Errors]:
    """The whole number in a label or annotation, or the error that it is none."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isascii() and digits.isdigit():
        return int(text), []
    return None, [invalid(field, text, f'strconv.Atoi: parsing "{text}": invalid syntax')]


# ---- change


def validate_update(old: Job, new: Job, kind: Kind, rules: Rules, known: QueueLevels | None = None) -> Errors:
    """The errors of a change; a job that is being deleted may change freely, so that its finalizers can go."""
    if is_part(new, rules) or (new.get("metadata") or {}).get("deletionTimestamp"):
        return []
    errors = validate_create(new, kind, rules, known)
    if not is_suspended(new):
        errors += unchanged(_QUEUE, queue_name(new), queue_name(old))
    if not (is_suspended(old) and is_suspended(new)):
        errors += _frozen_while_running(old, new, rules)
    errors += _priority_class(old, new)
    if rules.admission_gated_by:
        errors += gates.validate_update(old.get("metadata") or {}, new.get("metadata") or {})
    return [*errors, *kind.update(old, new)]


def _frozen_while_running(old: Job, new: Job, rules: Rules) -> Errors:
    path, name = prebuilt_workload(new, rules)
    key = names.MAX_EXEC_TIME_LABEL
    return [
        *unchanged(path, name, prebuilt_workload(old, rules)[1]),
        *unchanged(_MAX_TIME, labels_of(new).get(key, ""), labels_of(old).get(key, "")),
    ]


def _priority_class(old: Job, new: Job) -> Errors:
    before, after = labels_of(old).get(names.PRIORITY_CLASS_LABEL), labels_of(new).get(names.PRIORITY_CLASS_LABEL)
    if before and not after:
        return [invalid(_PRIORITY, "", "WorkloadPriorityClass cannot be removed from a workload")]
    if after and not before and not is_suspended(new):
        return [invalid(_PRIORITY, after, "WorkloadPriorityClass cannot be added to a non-suspended workload")]
    return []
