"""Reads the PersistentVolumeClaims that a Workload's pods use: by name, or one created for each pod. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from api.meta import object_key
from api.names import GANG, LASTING_CLAIM
from api.pod.volumes import ClaimPerPod, ClaimSpec
from api.workloads import Workload

_MOST: Final = 128
"""The maximum number of a pod's volumes that are read: no node attaches more, and any user can write them."""


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """One volume of a pod set that is a claim."""

    pod_set: str
    volume: str
    pods: int
    """The number of pods that use it."""
    claim: str = ""
    """Its name; empty if each pod gets a claim of its own."""
    spec: ClaimSpec | None = None
    """What each pod's own claim asks for."""
    example: bool = False
    """Whether it belongs to one pod of a group whose pods may differ."""
    lasting: bool = False
    """Whether a pod's own claim outlives the pod (StatefulSet), so that it may be bound already."""


def claim_uses(workload: Workload) -> list[ClaimUse]:
    """Returns the uses in the order of pod sets and volumes, without unreadable volumes: such a pod is never created."""
    grouped = workload.of_pod_group or GANG in workload.metadata.annotations
    uses = (
        _use(volume, pod_set.name, pod_set.count, grouped and pod_set.count > 1)
        for pod_set in workload.spec.pod_sets
        for volume in volumes_of(pod_set.template)
    )
    return [use for use in uses if use is not None]


def claim_keys(workload: Workload) -> list[str]:
    """Returns the distinct `namespace/name` of claims that the Workload's pods name."""
    named = {use.claim for use in claim_uses(workload) if use.claim}
    return [object_key(workload.metadata.namespace, name) for name in sorted(named)]


def volumes_of(template: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields the volumes of a template that are claims."""
    spec = template.get("spec")
    volumes = spec.get("volumes") if isinstance(spec, Mapping) else None
    for volume in volumes[:_MOST] if isinstance(volumes, (list, tuple)) else ():
        if isinstance(volume, Mapping) and ("persistentVolumeClaim" in volume or "ephemeral" in volume):
            yield volume


def makes_claims(template: Mapping[str, Any]) -> bool:
    """Reports whether Kubernetes creates a claim for each pod of the template (a generic ephemeral volume)."""
    return any("ephemeral" in volume for volume in volumes_of(template))


def _use(volume: Mapping[str, Any], pod_set: str, pods: int, example: bool) -> ClaimUse | None:
    name, source = str(volume.get("name", "")), volume.get("persistentVolumeClaim")
    if isinstance(source, Mapping):
        claim = source.get("claimName")
        return ClaimUse(pod_set, name, pods, claim, example=example) if claim and isinstance(claim, str) else None
    try:
        made = msgspec.convert(volume.get("ephemeral") or {}, ClaimPerPod)
    except msgspec.ValidationError:
        return None
    template = made.volume_claim_template
    lasting = LASTING_CLAIM in template.metadata.annotations
    return ClaimUse(pod_set, name, pods, spec=template.spec, example=example, lasting=lasting)
