"""Converts ClusterQueues, Cohorts and ResourceFlavors to the engine's values; see convert_workloads.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from admission.engine import model
from admission.engine.convert import convert_spares
from admission.engine.convert.conversion_errors import about, structs, within
from admission.engine.convert.convert_moves import terms_of_queue
from api import queues, topology
from api.errors import InvalidObject
from api.names import (
    BACKFILL,
    BACKFILL_LEARNED,
    ELASTIC_QUOTA_LABEL,
    GANG_MADE,
    PLACEMENT_PROFILE,
    PROFILES,
)
from api.pod import pods
from api.text import quantity

_NONE: Mapping[str, int] = {}


def cluster_queue(
    queue: queues.ClusterQueue,
    *,
    inactive: str | None = None,
    unanswered: tuple[model.UnansweredCheck, ...] = (),
    only_checks: bool = False,
    outside: Mapping[str, int] = _NONE,
) -> model.ClusterQueue:
    """Returns the engine's value of a ClusterQueue. Raises InvalidObject.

    `inactive` and the parameters after it are as in model.ClusterQueue; resources of `outside` that the ClusterQueue does not
    cover are dropped.
    """
    spec, elastic_quota = queue.spec, ELASTIC_QUOTA_LABEL in queue.metadata.labels
    strategy = spec.admission_checks_strategy
    with about("ClusterQueue", queue.key):
        groups = _resource_groups(spec.resource_groups)
        terms, per_day = terms_of_queue(queue.metadata.annotations)
        covered = {resource for group in groups for resource in group.resources}
        return model.ClusterQueue(
            name=queue.key,
            groups=groups,
            cohort=spec.cohort_name or None,
            strategy=spec.queueing_strategy,
            stop=spec.stop_policy,
            fungibility=_fungibility(spec.flavor_fungibility),
            preemption=_preemption(spec.preemption, keeps_nominal=elastic_quota),
            weight_milli=_weight(spec.fair_sharing),
            checks=tuple(rule.name for rule in strategy.admission_checks) if strategy else (),
            inactive=inactive,
            unanswered=unanswered,
            only_checks=only_checks,
            profile=profile_of(queue.metadata.annotations),
            ignores_uncovered=elastic_quota or GANG_MADE in queue.metadata.labels,
            reserves_starts=_yes_or_no(queue.metadata.annotations, BACKFILL),
            by_guess=_yes_or_no(queue.metadata.annotations, BACKFILL_LEARNED),
            outside={resource: outside[resource] for resource in sorted(covered & outside.keys())},
            restart=terms,
            moves_per_day=per_day,
            by_usage=_by_usage(spec.admission_scope),
        )


def cohort(stored: queues.Cohort) -> model.Cohort:
    """Returns the engine's value of a Cohort. Raises InvalidObject."""
    with about("Cohort", stored.key):
        quotas = {
            (flavor.flavor, resource): quota
            for group in _resource_groups(stored.spec.resource_groups)
            for flavor in group.flavors
            for resource, quota in flavor.quotas.items()
        }
        return model.Cohort(stored.key, stored.spec.parent_name or None, quotas, _weight(stored.spec.fair_sharing))


def _resource_groups(groups: Sequence[queues.ResourceGroup]) -> tuple[model.ResourceGroup, ...]:
    return tuple(
        model.ResourceGroup(
            group.covered_resources,
            tuple(_flavor_quotas(f, f"spec.resourceGroups[{i}].flavors[{j}]") for j, f in enumerate(group.flavors)),
        )
        for i, group in enumerate(groups)
    )


def _flavor_quotas(flavor: queues.FlavorQuotas, field: str) -> model.FlavorQuotas:
    given = enumerate(flavor.resources)
    return model.FlavorQuotas(flavor.name, {r.name: _quota(r, f"{field}.resources[{i}]") for i, r in given})


def _quota(quota: queues.ResourceQuota, field: str) -> model.Quota:
    def limit(text: str | int | float | None, name: str) -> int | None:
        return None if text is None else _amount(quota.name, text, f"{field}.{name}")

    return model.Quota(
        _amount(quota.name, quota.nominal_quota, f"{field}.nominalQuota"),
        limit(quota.borrowing_limit, "borrowingLimit"),
        limit(quota.lending_limit, "lendingLimit"),
    )


def _amount(resource: str, text: str | int | float, field: str) -> int:
    with within(f"{field}: "):
        amount = quantity.to_int(resource, text)
    if amount < 0:
        raise InvalidObject(field, text, "must be greater than or equal to 0")
    return amount


def _fungibility(fungibility: queues.FlavorFungibility | None) -> model.FungibilityPolicy:
    if fungibility is None:
        return model.FungibilityPolicy()
    return model.FungibilityPolicy(fungibility.when_can_borrow, fungibility.when_can_preempt, fungibility.preference)


def _preemption(preemption: queues.Preemption | None, *, keeps_nominal: bool) -> model.PreemptionPolicy:
    if preemption is None:
        return model.PreemptionPolicy(keeps_nominal=keeps_nominal)
    borrow = preemption.borrow_within_cohort or queues.BorrowWithinCohort()
    return model.PreemptionPolicy(
        preemption.reclaim_within_cohort,
        preemption.within_cluster_queue,
        borrow.policy,
        borrow.max_priority_threshold,
        keeps_nominal,
    )


def _by_usage(scope: Mapping[str, Any] | None) -> bool:
    return scope is not None and scope.get("admissionMode") == queues.USAGE_BASED


def local_queue_weight(queue: queues.LocalQueue) -> float:
    """Returns the weight of a LocalQueue in admission fair sharing, by default 1; 0 or less is infinite usage. Raises
    InvalidObject.
    """
    sharing = queue.spec.fair_sharing
    if sharing is None or sharing.weight is None:
        return 1.0
    with about("LocalQueue", queue.key), within("spec.fairSharing.weight: "):
        return float(quantity.parse(sharing.weight))


def _weight(sharing: queues.FairSharing | None) -> int:
    if sharing is None or sharing.weight is None:
        return 1000
    with within("spec.fairSharing.weight: "):
        weight = quantity.parse(sharing.weight)
        # Only weight 0 makes a share infinite, so a tiny positive weight must not be rounded to 0.
        return max(1, int(weight * 1000)) if weight > 0 else 0


def flavor(
    stored: topology.ResourceFlavor, named: topology.Topology | None, *, topology_aware: bool = True
) -> model.Flavor:
    """Returns the engine's value of a ResourceFlavor, with the levels of its own or of its Topology. Raises InvalidObject.

    `named` is the Topology that the flavor names, if that exists. If the flavor has levels of its own, messages use the
    flavor's name as the topology's. If `topology_aware` is False, the flavor gets no levels.
    """
    spec, name, levels = stored.spec, stored.spec.topology_name, named.levels if named else None
    if spec.topology is not None:
        name, levels = stored.key, spec.topology.levels
    if not topology_aware:
        name = None
    with about("ResourceFlavor", stored.key):
        return model.Flavor(
            name=stored.key,
            node_labels=spec.node_labels,
            taints=structs(spec.node_taints, pods.Taint, "spec.nodeTaints"),
            tolerations=structs(spec.tolerations, pods.Toleration, "spec.tolerations"),
            topology=name,
            levels=levels if name is not None else None,
            spare=convert_spares.readable_rule(stored, levels) if name is not None else None,
        )


def goes_by_guess(queue: queues.ClusterQueue) -> bool:
    """Reports whether workloads of this queue may overtake by their guess."""
    return queue.metadata.annotations.get(BACKFILL_LEARNED) == "true"


def _yes_or_no(annotations: Mapping[str, str], key: str) -> bool:
    text = annotations.get(key, "false")
    if text not in ("true", "false"):
        raise InvalidObject(f"metadata.annotations[{key}]", text, "must be true or false")
    return text == "true"


def profile_of(annotations: Mapping[str, str]) -> model.Profile | None:
    """Returns the placement profile that the annotations name, or None. Raises InvalidObject."""
    text = annotations.get(PLACEMENT_PROFILE)
    if text is None:
        return None
    if text not in PROFILES:
        raise InvalidObject(f"metadata.annotations[{PLACEMENT_PROFILE}]", text, f"must be one of {', '.join(PROFILES)}")
    return model.Profile(text)
