"""Updates of pods that carry a gate or a mark of Stowage (marks.py), whatever their other labels. Pure; pod.py calls it.

Kubernetes lets every user who may update pods remove a gate, change the marks, and move a pod away from its owner's selector.
Each of these runs pods that nobody admitted, or that count for another Workload. So such changes need a right (rights.py);
Stowage's own accounts are never asked (config/webhook).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from admission.webhook.guards import owners
from admission.webhook.guards.marks import IDENTITY, closed_gates, is_marked
from admission.webhook.rules.fields import IMMUTABLE, Errors, FieldError, FieldPath, forbidden, invalid
from admission.webhook.rules.jobs import annotations_of, labels_of
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules, is_cluster_controller
from api import names

Pod = Mapping[str, Any]

_SPEC: Final = FieldPath("spec")
_METADATA: Final = FieldPath("metadata")
_LABELS: Final = _METADATA.child("labels")
_ANNOTATIONS: Final = _METADATA.child("annotations")
_LEGACY_SELECTORS: Final = ("controller-uid", "job-name")
"""Labels without a prefix by which Kubernetes' Job controller finds pods."""
_FREE: Final = (names.PODSET_LABEL, names.PRIORITY_CLASS_LABEL)
"""Labels with a prefix that another rule judges."""
_OPENED: Final = (
    "a queued pod starts once its workload is admitted and its place is known; only Stowage removes this gate"
)


def changed_by_hand(old: Pod, new: Pod, user: str, lookups: Lookups, rules: ReviewRules) -> Errors:
    """Returns the errors of an update that only Stowage, the pod's own controller or an administrator of queues may make."""
    errors = [*_identity(old, new)]
    if owners.claim(old, rules, pod=True) is not None and not is_cluster_controller(user):
        errors += _leaves_its_owner(old, new)
    if not (new.get("metadata") or {}).get("deletionTimestamp"):
        errors += [*_opened(old, new), *_sent_elsewhere(old, new, lookups)]
    return errors


def _opened(old: Pod, new: Pod) -> Iterator[FieldError]:
    gone = closed_gates(old) - closed_gates(new)
    if gone:
        yield forbidden(_SPEC.child("schedulingGates"), f"{', '.join(sorted(gone))}: {_OPENED}")


def _identity(old: Pod, new: Pod) -> Iterator[FieldError]:
    tables = ((_LABELS, labels_of, (names.PODSET_LABEL,)), (_ANNOTATIONS, annotations_of, IDENTITY))
    for at, of, keys in tables:
        for key in keys:
            if of(old).get(key) != of(new).get(key):
                yield invalid(at.key(key), of(new).get(key, ""), IMMUTABLE)


def _leaves_its_owner(old: Pod, new: Pod) -> Iterator[FieldError]:
    """Yields the errors of an update that takes a pod of an admitted job from its controller, which would replace the pod.

    Labels with a prefix belong to the software that the prefix names: controllers find their pods by them.
    """
    if not is_marked(old):
        return
    if owners.controllers(old) != owners.controllers(new):
        text = "a pod of an admitted job stays with its owner: the pod counts until it has ended"
        yield forbidden(_METADATA.child("ownerReferences"), text)
    for key, value in labels_of(old).items():
        if ("/" in key or key in _LEGACY_SELECTORS) and key not in _FREE and labels_of(new).get(key) != value:
            text = "the controller of an admitted job finds its pods by this label, and would replace this pod"
            yield forbidden(_LABELS.key(key), text)


def _sent_elsewhere(old: Pod, new: Pod, lookups: Lookups) -> Iterator[FieldError]:
    """Yields the errors of a changed nodeSelector of a gated pod: it would never be bound, or not where it was admitted."""
    if not closed_gates(old):
        return
    before, after = ((pod.get("spec") or {}).get("nodeSelector") or {} for pod in (old, new))
    if before == after:
        return
    ours = lookups.placement_labels()
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key) and key in ours:
            text = "the label of a level or flavor: Stowage writes it once the pod's place is known"
            yield forbidden(_SPEC.child("nodeSelector").key(key), text)
