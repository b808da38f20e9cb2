"""Converts Workloads to the engine's values.

convert_admissions.py, convert_moves.py, convert_queues.py and convert_nodes.py do the same for parts and other kinds.
Conversion parses quantities, fills in defaults and drops fields that the engine does not read; it decides nothing and keeps no
state. Invalid input raises `api.errors.InvalidObject`, which names object and field. The feed converts an object once for each
change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from admission.engine import model
from admission.engine.convert.conversion_errors import about, within
from admission.engine.convert.convert_admissions import from_status
from admission.engine.convert.convert_moves import terms_of_workload
from admission.engine.convert.convert_queues import profile_of
from admission.engine.quota.charging import PLAIN, ResourceRules
from api import backfill, topology_request, workloads
from api.annotations import constraints
from api.annotations.requests import parse_int32
from api.errors import InvalidObject
from api.meta import find_condition, is_true, object_key, parse_time
from api.names import (
    ADMITTED,
    BACKFILLED,
    EVICTED,
    GANG,
    GANG_GROUP,
    GANG_LEAST,
    GANG_SINCE,
    GANG_UID,
    JOB_UID_LABEL,
    PRIORITY_BOOST,
    QUOTA_RESERVED,
    RESERVATION,
    SAKKARA_GROUP_ANNOTATION,
    EvictedReason,
)
from api.pod import pods
from api.pod.exclusive import exclusive
from api.pod.pod_requests import effective_requests
from api.pod.pod_terms import Labels, pod_facts, sorted_labels, with_spread
from api.text import quantity, untrusted_text

# After these evictions a workload queues from the time of its eviction; otherwise from its creation (lifecycle.md 3.6).
_REQUEUED_FROM_EVICTION = (EvictedReason.PODS_READY_TIMEOUT, EvictedReason.ADMISSION_CHECK)
_LONGER_WORDS = {"type": "spreading", "min": "minimum", "max": "maximum"}
LONGEST_ANNOTATION: Final = 1024
"""Most characters of an annotation that a feature reads."""
_NOT_NEGATIVE = "must be greater than or equal to 0"


_TERMINATION = 30
_JOB_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")


def workload(
    w: workloads.Workload,
    *,
    cluster_queue: str,
    blocked: tuple[str, str] | None = None,
    not_before: float = 0.0,
    defect: str | None = None,
    rules: ResourceRules = PLAIN,
    by_eviction: bool = True,
    boosted: bool = False,
    pod_sets: tuple[model.PodSet, ...] | None = None,
    replaces: str = "",
    since: float | None = None,
    guess: float | None = None,
    groups_outrank: bool = False,
    annotations: Iterable[str] = (),
) -> model.Workload:
    """Returns the engine's value of a Workload. Its admission is read while QuotaReserved is True. Raises InvalidObject.

    Reclaimable pods are not requested while the workload waits, and not charged to quota while it runs, if the rules say so;
    the capacity of their nodes stays charged (lifecycle.md 3.7). With `by_eviction`, a workload that was evicted because its
    pods were not ready in time queues from its eviction. With `boosted`, its annotation `priority-boost` adds to its priority.
    `pod_sets` are those of an equal spec without reclaimable pods. `since` is when the first slice of its
    job was created (epoch seconds): a job that grows stays as old. With `groups_outrank`, the priority of a
    Sakkara group's ConfigMap counts in all namespaces. `annotations` are the keys of those that features
    read. `blocked`, `not_before`, `defect`, `replaces` and `guess` are as in model.Workload.
    """
    meta, status = w.metadata, w.status
    done = w.reclaimed if rules.reclaims else {}
    with about("Workload", w.key):
        gang = _gang(w)
        reserved = is_true(status.conditions, QUOTA_RESERVED)
        boost = _boost(meta.annotations) if boosted else 0
        return model.Workload(
            key=w.key,
            uid=meta.uid,
            queue=f"{meta.namespace}/{w.spec.queue_name}",
            cluster_queue=cluster_queue,
            pod_sets=_of_gang(
                gang, pod_sets if pod_sets is not None else _pod_sets(w, {} if reserved else done, rules)
            ),
            priority=(w.spec.priority or 0) + boost,
            priority_elsewhere=None if groups_outrank else _priority_elsewhere(w, boost),
            boost=boost,
            queued=_queued(w, by_eviction, since),
            not_before=not_before,
            blocked=blocked,
            defect=defect,
            admission=from_status(status.admission, w.spec, done) if reserved and status.admission else None,
            evicted=is_true(status.conditions, EVICTED),
            profile=profile_of(meta.annotations),
            reserved=_since(w, QUOTA_RESERVED) if reserved else None,
            job_uid=meta.labels.get(JOB_UID_LABEL, ""),
            gang=gang,
            time_limit=_time_limit(w),
            admitted=_since(w, ADMITTED) if is_true(status.conditions, ADMITTED) else None,
            gated=closed_gate(w),
            one_pod=w.of_one_pod,
            replaces=replaces,
            pod_labels=sorted_labels(_owner_labels(w)),
            reservation=_reservation(w),
            restart=terms_of_workload(w),
            guess=guess,
            yields=_yields(w) if reserved else None,
            termination=_termination(w),
            annotations=_read(meta.annotations, annotations),
        )


def _priority_elsewhere(w: workloads.Workload, boost: int) -> int | None:
    """Returns the priority of the pods' PriorityClass if it is lower than that of the group's ConfigMap, else None."""
    if SAKKARA_GROUP_ANNOTATION not in w.metadata.annotations or w.spec.priority_class_ref is not None:
        return None
    of_pods = (_part(pod_set.template, "spec").get("priority") for pod_set in w.spec.pod_sets)
    of_class = max((number for number in of_pods if isinstance(number, int)), default=0)
    return None if of_class >= (w.spec.priority or 0) else of_class + boost


def _read(annotations: Mapping[str, str], keys: Iterable[str]) -> Labels:
    """Returns the annotations with these keys. A text that is longer than any feature needs is cut."""
    return tuple((key, annotations[key][:LONGEST_ANNOTATION]) for key in keys if key in annotations)


def pod_sets(w: workloads.Workload, rules: ResourceRules = PLAIN) -> tuple[model.PodSet, ...]:
    """Returns the pod sets of a Workload with all pods that it requests, reclaimable ones included. Raises InvalidObject."""
    with about("Workload", w.key):
        return _pod_sets(w, {}, rules)


def same_for_all(spec: workloads.WorkloadSpec) -> bool:
    """Reports whether `pod_sets` is equal for all Workloads with this spec: no pod term depends on namespace or owner."""
    return not any(_keeps_pods_away(pod_set.template) for pod_set in spec.pod_sets)


def _keeps_pods_away(template: Mapping[str, Any]) -> bool:
    affinity = _part(_part(template, "spec"), "affinity")
    spread = "topologySpreadConstraints" in _part(template, "spec")
    return "podAntiAffinity" in affinity or "podAffinity" in affinity or spread


def _pod_sets(w: workloads.Workload, done: Mapping[str, int], rules: ResourceRules) -> tuple[model.PodSet, ...]:
    return tuple(
        _pod_set(w, p, f"spec.podSets[{i}]", done.get(p.name, 0), rules) for i, p in enumerate(w.spec.pod_sets)
    )


def _part(of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Returns a map inside a template; an empty map if the template has no map there."""
    part = of.get(key)
    return part if isinstance(part, Mapping) else {}


def _reservation(w: workloads.Workload) -> str:
    """Returns the hold of nodes that the Workload names, or else the first of its templates (as those of plain pods)."""
    templates = (_part(_part(pod_set.template, "metadata"), "annotations") for pod_set in w.spec.pod_sets)
    named = (reservation for each in (w.metadata.annotations, *templates) if (reservation := each.get(RESERVATION)))
    reservation = next(named, "")
    return reservation if isinstance(reservation, str) else ""


def _pod_labels(w: workloads.Workload, template: Mapping[str, Any]) -> dict[str, str]:
    """Returns the labels of the pods: those of the template and those that the Job controller adds."""
    return {**_template_labels(template), **_owner_labels(w)}


def _template_labels(template: Mapping[str, Any]) -> dict[str, str]:
    labels = _part(_part(template, "metadata"), "labels")
    return {str(key): str(value) for key, value in labels.items()}


def _owner_labels(w: workloads.Workload) -> dict[str, str]:
    """Returns the labels that the Job controller adds to the pods of the owner."""
    jobs = [owner.name for owner in w.metadata.owner_references if owner.controller and owner.kind == "Job"]
    return {key: name for name in jobs for key in _JOB_NAME_LABELS}


def closed_gate(w: workloads.Workload) -> bool:
    """Reports whether a preemption gate of the Workload is closed. A gate is closed unless the status says that it is open."""
    opened = {gate.get("name") for gate in w.status.preemption_gates if gate.get("position") == "Open"}
    return any(gate.get("name") not in opened for gate in w.spec.preemption_gates)


def _gang(w: workloads.Workload) -> model.Gang | None:
    """Returns the gang by the annotations that the pod controller writes; None without them. Raises InvalidObject."""
    given = w.metadata.annotations
    if GANG not in given:
        return None
    text = given.get(GANG_GROUP, "[]")
    try:
        together = msgspec.json.decode(untrusted_text.bounded(text), type=tuple[str, ...])
    except (msgspec.MsgspecError, ValueError):
        raise InvalidObject(f"metadata.annotations[{GANG_GROUP}]", text, "must be a JSON list of gangs") from None
    joins = "" if w.metadata.name == given[GANG] else object_key(w.metadata.namespace, given[GANG])
    started = is_true(w.status.conditions, ADMITTED)
    minimum = None if joins else _minimum(given)
    return model.Gang(given.get(GANG_UID, w.metadata.uid), () if joins else together, started, joins, minimum)


def _minimum(annotations: Mapping[str, str]) -> int | None:
    text = annotations.get(GANG_LEAST)
    minimum = None if text is None else parse_int32(text)
    if text is not None and (minimum is None or minimum < 1):
        raise InvalidObject(f"metadata.annotations[{GANG_LEAST}]", text, "must be an integer of 32 bits, at least 1")
    return minimum


def _of_gang(gang: model.Gang | None, pod_sets: tuple[model.PodSet, ...]) -> tuple[model.PodSet, ...]:
    """Returns the pod sets of a gang with the fewest pods that each may start with."""
    spare = 0 if gang is None or gang.minimum is None else sum(each.count for each in pod_sets) - gang.minimum
    if spare <= 0:
        return pod_sets
    return tuple(replace(each, min_count=max(0, each.count - spare)) for each in pod_sets)


def _since(w: workloads.Workload, kind: str) -> float | None:
    condition = find_condition(w.status.conditions, kind)
    return None if condition is None else parse_time(condition.last_transition_time)


def _time_limit(w: workloads.Workload) -> float | None:
    """Returns the seconds that the workload may run after its next admission, net of earlier runs; None without a limit."""
    limit, past = w.spec.maximum_execution_time_seconds, w.status.accumulated_past_execution_time_seconds or 0
    return None if limit is None else float(max(0, limit - past))


def _termination(w: workloads.Workload) -> float:
    """Returns the longest time that a pod set gives its pods to end (seconds); Kubernetes stores 30 where none is written."""
    specs = (_part(pod_set.template, "spec") for pod_set in w.spec.pod_sets)
    seconds = (spec.get("terminationGracePeriodSeconds") for spec in specs)
    return float(max((max(0, each) if type(each) is int else _TERMINATION for each in seconds), default=0))


def _yields(w: workloads.Workload) -> float | None:
    """Returns from when on the workload may be evicted because it overtook another one; None if it did not.

    Only Stowage writes such a status. One that somebody edited so that it cannot be read is as if there were none.
    """
    backfilled = find_condition(w.status.conditions, BACKFILLED)
    return None if backfilled is None or backfilled.status != "True" else backfill.read_until(backfilled.message)


def _boost(annotations: Mapping[str, str]) -> int:
    text = annotations.get(PRIORITY_BOOST)
    boost = 0 if text is None else parse_int32(text)
    if boost is None:
        raise InvalidObject(f"metadata.annotations[{PRIORITY_BOOST}]", text, "must be an integer of 32 bits")
    return boost


def _queued(w: workloads.Workload, by_eviction: bool, first: float | None) -> float:
    evicted, created = find_condition(w.status.conditions, EVICTED), w.metadata.creation_timestamp
    counts = _REQUEUED_FROM_EVICTION[0 if by_eviction else 1 :]
    if evicted is not None and evicted.status == "True" and evicted.reason in counts:
        return parse_time(evicted.last_transition_time or created) or 0.0
    if since := w.metadata.annotations.get(GANG_SINCE):
        try:
            return parse_time(since) or 0.0
        except ValueError:
            raise InvalidObject(f"metadata.annotations[{GANG_SINCE}]", since, "must be an RFC 3339 time") from None
    queued = parse_time(created) or 0.0
    return queued if first is None else min(queued, first)


def _pod_set(
    w: workloads.Workload, pod_set: workloads.PodSet, field: str, done: int, rules: ResourceRules
) -> model.PodSet:
    spec = _template_spec(pod_set.template, f"{field}.template")
    required, preferred = _node_affinity(spec)
    topology = pod_set.topology_request
    requests = _requests(spec, f"{field}.template.spec")
    namespace, labels = w.metadata.namespace or "", _pod_labels(w, pod_set.template)
    facts = with_spread(pod_facts(spec, namespace, labels), spec)
    return model.PodSet(
        name=pod_set.name,
        count=max(0, pod_set.count - done),
        requests=requests,
        charged=rules.charged(requests),
        min_count=pod_set.min_count,
        topology=_topology_request(topology, pod_set, f"{field}.topologyRequest") if topology else None,
        node_selector=spec.node_selector,
        affinity=required,
        preferred_affinity=preferred,
        tolerations=spec.tolerations,
        exclusive=exclusive(spec, namespace, labels),
        labels=sorted_labels(_template_labels(pod_set.template)),
        facts=facts if facts.has_terms else None,
    )


def _template_spec(template: Mapping[str, Any], field: str) -> pods.PodSpec:
    try:
        return pods.pod_spec(template)
    except msgspec.ValidationError as bad:
        raise InvalidObject(field, template.get("spec"), str(bad)) from None


def _requests(spec: pods.PodSpec, field: str) -> model.Amounts:
    with within(f"{field}: "):
        requests = effective_requests(spec)
    for resource, amount in requests.items():
        if amount < 0:
            raise InvalidObject(f"{field}: requests[{resource}]", quantity.to_text(resource, amount), _NOT_NEGATIVE)
    return requests


def _node_affinity(
    spec: pods.PodSpec,
) -> tuple[tuple[model.NodeSelectorTerm, ...] | None, tuple[model.PreferredTerm, ...]]:
    node = spec.affinity.node_affinity if spec.affinity else None
    if node is None:
        return _with_spread_keys(spec, None), ()
    required = node.required_during_scheduling_ignored_during_execution
    preferred = node.preferred_during_scheduling_ignored_during_execution
    return _with_spread_keys(spec, required.node_selector_terms if required else None), preferred


def _with_spread_keys(
    spec: pods.PodSpec, terms: tuple[model.NodeSelectorTerm, ...] | None
) -> tuple[model.NodeSelectorTerm, ...] | None:
    """Returns the terms extended by the label keys that a node must have for DoNotSchedule spread constraints."""
    keys = {one.topology_key for one in spec.topology_spread_constraints if one.when_unsatisfiable == "DoNotSchedule"}
    if not keys:
        return terms
    has = tuple(model.NodeSelectorRequirement(key, "Exists") for key in sorted(keys))
    if terms is None:
        return (model.NodeSelectorTerm(match_expressions=has),)
    return tuple(
        msgspec.structs.replace(term, match_expressions=(*term.match_expressions, *has))
        for term in terms
        if term.match_expressions or term.match_fields  # an empty term matches no node and must stay without effect
    )


def _topology_request(
    request: topology_request.TopologyRequest, of: workloads.PodSet, field: str
) -> model.TopologyRequest:
    slices = tuple(
        model.SliceLayer(layer.topology, layer.size)
        for layer in request.podset_slice_required_topology_constraints or ()
    )
    if not slices and request.pod_set_slice_required_topology is not None:
        slices = (model.SliceLayer(request.pod_set_slice_required_topology, request.pod_set_slice_size or 0),)
    shaped = request.constraints or ()
    for fault in constraints.contradictions(shaped, of.count, of.name):
        place = "".join(f"[{part}]" for part in fault.path)
        raise InvalidObject(f"{field}.constraints{place}", fault.given, fault.allowed)
    # Placement constraints without a required or preferred level imply that the pods may use the whole topology.
    anywhere = True if shaped and request.required is None and request.preferred is None else request.unconstrained
    return model.TopologyRequest(
        required=request.required,
        preferred=request.preferred,
        unconstrained=anywhere,
        group=request.pod_set_group_name,
        slices=slices,
        slice_topology_only=bool(slices) and request.required is None and request.preferred is None,
        explicit=request.explicit,
        constraints=tuple(map(_level_constraint, shaped)),
        relax_after=request.relax_after_seconds,
        spare_hosts=request.spare_hosts or 0,
    )


def _level_constraint(constraint: topology_request.PlacementConstraint) -> model.LevelConstraint:
    """Returns the constraint with the engine's field names."""
    words = {
        _LONGER_WORDS.get(word, word): getattr(constraint, word)
        for word in topology_request.PlacementConstraint.model_fields
    }
    return model.LevelConstraint(**words | {"spreading": model.Spreading(constraint.type)})
