"""Names of queues and cohorts that refer to nothing."""

from __future__ import annotations

import difflib
import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from admission.doctor.finding import Check, Finding
from admission.doctor.view import Obj, View, condition, is_made, name_of, namespace_of, spec_of
from admission.integrations.owners import owner_resources
from api.kube.resources import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, PODS, WORKLOADS
from api.names import API_VERSION, FINISHED, QUEUE_NAME_LABEL, QUOTA_RESERVED

_ALIKE: Final = 0.6
_MOST: Final = 100


def _lone_cohorts(view: View) -> Iterator[Finding]:
    """Yields owners of a cohort's name that nobody else has: they share quota with nobody."""
    queues = [each for each in view.of(CLUSTER_QUEUES) if not is_made(each)]
    users = [("clusterqueue", "cohortName", each) for each in queues]
    users += [("cohort", "parentName", each) for each in view.of(COHORTS)]
    names = Counter(str(spec_of(each)[field]) for _, field, each in users if spec_of(each).get(field))
    known = {name_of(each) for each in view.of(COHORTS)}
    for kind, field, each in users:
        name = str(spec_of(each).get(field) or "")
        if not name or name in known or names[name] > 1:
            continue
        others = sorted(known | (names.keys() - {name}) - {name_of(each)})
        close = difflib.get_close_matches(name, others, 1, _ALIKE)
        body = json.dumps({"spec": {field: close[0] if close else None}})
        title = f"{'ClusterQueue' if kind == 'clusterqueue' else 'Cohort'} {name_of(each)}"
        what = f"names the cohort {name}, in which there is nothing else" + (f"; is it {close[0]}?" if close else "")
        yield Finding(title, what, view.command("patch", kind, name_of(each), "--type=merge", "-p", body))


def _unknown_queues(view: View) -> Iterator[Finding]:
    for workload in view.of(WORKLOADS):
        queue, namespace = str(spec_of(workload).get("queueName") or ""), namespace_of(workload)
        over = any(condition(workload, kind).get("status") == "True" for kind in (FINISHED, QUOTA_RESERVED))
        if not queue or over or view.named(LOCAL_QUEUES, queue, namespace) is not None:
            continue
        what = f"names the LocalQueue {queue}, which does not exist in its namespace"
        yield Finding(_title(workload), what, _to_another(view, workload, queue))


def _title(workload: Obj) -> str:
    """Returns the kind and key of the Workload's only owner, else of the Workload."""
    owners: list[Obj] = workload["metadata"].get("ownerReferences") or []
    kind, name = WORKLOADS.kind, name_of(workload)
    if len(owners) == 1:
        kind, name = str(owners[0].get("kind")), str(owners[0].get("name"))
    return f"{kind} {namespace_of(workload)}/{name}"


def _to_another(view: View, workload: Obj, queue: str) -> str:
    """Returns the command that gives the Workload's owners the most similar queue of the namespace, or creates the queue."""
    namespace = namespace_of(workload)
    here = [name_of(each) for each in view.of(LOCAL_QUEUES) if namespace_of(each) == namespace and not is_made(each)]
    chosen = here[0] if len(here) == 1 else next(iter(difflib.get_close_matches(queue, here, 1, _ALIKE)), "")
    if chosen and (owners := _owners(workload)):
        label = f"{QUEUE_NAME_LABEL}={chosen}"
        return view.command("-n", namespace, "label", "--overwrite", *owners[:_MOST], label)
    elsewhere = [each for each in view.of(LOCAL_QUEUES) if name_of(each) == queue and not is_made(each)]
    targets = [str(spec_of(each).get("clusterQueue")) for each in elsewhere]
    if not targets:
        return f"# create the LocalQueue {queue} in the namespace {namespace}, or give the job another queue"
    made: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": LOCAL_QUEUES.kind,
        "metadata": {"name": queue, "namespace": namespace},
        "spec": {"clusterQueue": targets[0]},
    }
    return f"echo {shlex.quote(json.dumps(made))} | {view.command('apply', '--server-side', '-f', '-')}"


def _owners(workload: Obj) -> Sequence[str]:
    """Returns the Workload's job or set as `PLURAL.GROUP/NAME`, or its pods; empty for an owner of another kind."""
    plurals = {(each.group, each.kind): f"{each.plural}.{each.group}".rstrip(".") for each in owner_resources()}
    owners = workload["metadata"].get("ownerReferences") or ()
    named = []
    for owner in owners:
        group, slash, _ = str(owner.get("apiVersion") or "").partition("/")
        plural = plurals.get((group if slash else "", str(owner.get("kind"))))
        if plural is not None:
            named.append((plural, f"{plural}/{owner.get('name')}"))
    jobs = [name for plural, name in named if plural != PODS.plural]
    return jobs[:1] or [name for _, name in named]


CHECKS: Final = (
    Check(
        "cohorts-alone",
        (CLUSTER_QUEUES, COHORTS),
        "A ClusterQueue or Cohort names a cohort in which there is nothing else: no queue, and no Cohort of that name.",
        "It can borrow from nobody, and lends to nobody: mostly the name is misspelt.",
        "names the most similar cohort instead, or removes the name",
        _lone_cohorts,
    ),
    Check(
        "workloads-without-queue",
        (WORKLOADS, LOCAL_QUEUES),
        "A waiting Workload names a LocalQueue that does not exist in its namespace.",
        "It waits for ever.",
        "gives its job the namespace's only queue or the one with the most similar name, or creates the LocalQueue as in "
        "another namespace",
        _unknown_queues,
    ),
)
