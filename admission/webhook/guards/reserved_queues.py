"""Queue names that users may not write: GANG_QUEUE and SAKKARA_QUEUE are for gangs without a queue name. Pure.

These queues count no quota, so a job that names one would escape every quota. A gang may name the queue if it would get that
queue anyway: if no elastic quota, no default queue and no rule for jobs without a queue name applies to its namespace. A
LocalQueue of such a name that a user created is an ordinary queue.
"""

from __future__ import annotations

from typing import Final

from admission.webhook.review_request import Request
from admission.webhook.rules.defaults import default_queue, is_opted_in
from admission.webhook.rules.fields import Errors, FieldPath, forbidden
from admission.webhook.rules.jobs import queue_name
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from api import names
from api.meta import object_key

RESERVED: Final = (names.GANG_QUEUE, names.SAKKARA_QUEUE)
QUEUE: Final = FieldPath("metadata").child("labels").key(names.QUEUE_NAME_LABEL)


def validate(queue: str, namespace: str, lookups: Lookups, rules: ReviewRules, *, gang: bool = False) -> Errors:
    """Returns an error if an object (a pod of a gang with `gang`) names a reserved queue without being allowed to."""
    if queue not in RESERVED or _is_managed_by_stowage(queue, namespace, lookups):
        return []
    if gang and not is_queued_anyway(namespace, lookups, rules):
        return []
    return [forbidden(QUEUE, f'"{queue}" is reserved for gangs that name no queue: leave it out, or name a LocalQueue')]


def of_request(request: Request, lookups: Lookups, rules: ReviewRules, *, gang: bool = False) -> Errors:
    """Returns the error of a queue name that is new and reserved."""
    queue = queue_name(request.written or request.new)
    if queue == queue_name(request.old):
        return []
    return validate(queue, request.namespace, lookups, rules, gang=gang)


def is_queued_anyway(namespace: str, lookups: Lookups, rules: ReviewRules) -> bool:
    """Reports whether the namespace's pods and jobs are queued even without a queue name."""
    return (
        default_queue(namespace, lookups) is not None
        or rules.manage_jobs_without_queue_name
        or is_opted_in(namespace, lookups)
    )


def _is_managed_by_stowage(queue: str, namespace: str, lookups: Lookups) -> bool:
    local_queue = lookups.local_queues.get(object_key(namespace, queue))
    return local_queue is not None and names.GANG_MADE not in local_queue.metadata.labels
