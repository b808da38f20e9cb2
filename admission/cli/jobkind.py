"""`stowage jobkind`: tests a JobKind on a sample, and prints the RBAC rules that its jobs need. Reads files only.

Exit codes: 0 on success, 1 if the JobKind is invalid or does not fit the sample, 2 if a file cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
import yaml

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.declared.referenced import keep_referenced
from admission.integrations.job_kind_errors import errors_of
from admission.integrations.job_kinds import adapter_of
from admission.integrations.paths import with_value
from admission.integrations.podset import PodSetConflict, PodSetInfo
from admission.integrations.sets.scaled import ScaledSet
from admission.world.documents import Unreadable, documents
from api import names
from api.errors import InvalidObject
from api.job_kinds import JobKind
from api.names import AGGREGATE_TO_CONTROLLER, AGGREGATE_TO_WEBHOOK
from api.pod.pod_requests import effective_requests
from api.pod.pods import pod_spec
from api.text.quantity import to_texts
from api.workloads import PodSet

GOOD, BAD, UNREADABLE = 0, 1, 2


def test(kind_file: Path, sample_file: Path) -> int:
    """Prints what the JobKind reads from the sample: pod sets, requests, state, and the patches of start and stop."""
    try:
        kind, (sample, *others) = _kind(kind_file), [document.object for document in documents([sample_file])] or [{}]
    except Unreadable as bad:
        typer.echo(str(bad), err=True)
        return UNREADABLE
    if kind is None:
        return BAD
    meta = sample.get("metadata") or {}
    if not isinstance(meta, dict) or not isinstance(meta.get("annotations") or {}, dict):
        typer.echo(f"{sample_file}: metadata: must be a map, and its annotations too", err=True)
        return BAD
    job = adapter_of(kind.spec)
    if (sample.get("apiVersion"), sample.get("kind")) != (job.resource.api_version, job.resource.kind):
        given = f"{sample.get('apiVersion')} {sample.get('kind')}"
        typer.echo(f"{sample_file}: {given}: must be {job.resource.api_version} {job.resource.kind}", err=True)
        return BAD
    try:
        if isinstance(job, ScaledSet):
            output = _scaled(job, sample)
        else:
            keep_referenced([read for one in job.functions for read in one.reads], others)
            output = _test_output(job, sample)
        typer.echo(yaml.safe_dump(output, sort_keys=False).rstrip())
    except (InvalidObject, PodSetConflict) as bad:
        typer.echo(str(bad), err=True)
        return BAD
    return GOOD


def rbac(kind_file: Path) -> int:
    """Prints ClusterRoles with the rights that Stowage's processes need on jobs of the kind."""
    try:
        kind = _kind(kind_file)
    except Unreadable as bad:
        typer.echo(str(bad), err=True)
        return UNREADABLE
    if kind is None:
        return BAD
    for role in roles_of(kind):
        typer.echo(f"---\n{yaml.safe_dump(role, sort_keys=False).rstrip()}")
    return GOOD


def roles_of(kind: JobKind) -> list[dict[str, Any]]:
    """Returns the ClusterRoles of the kind; config/rbac/jobkinds.yaml aggregates them by label."""
    spec = kind.spec
    jobs = {"apiGroups": [spec.group], "resources": [spec.plural]}
    finalizers = {"apiGroups": [spec.group], "resources": [f"{spec.plural}/finalizers"], "verbs": ["update"]}
    rules = {
        AGGREGATE_TO_CONTROLLER: [{**jobs, "verbs": ["get", "list", "watch", "patch"]}, finalizers],
        AGGREGATE_TO_WEBHOOK: [{**jobs, "verbs": ["get"]}],
    }
    for one in DeclaredJob(spec).functions if spec.scale is None else ():
        for read in one.reads:
            rights = {"apiGroups": [read.group], "resources": [read.plural], "verbs": ["list", "watch"]}
            rules[AGGREGATE_TO_CONTROLLER].append(rights)
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": f"stowage-{label.rpartition('-')[2]}-{spec.plural}.{spec.group}",
                "labels": {label: "true"},
            },
            "rules": granted,
        }
        for label, granted in rules.items()
    ]


def _kind(file: Path) -> JobKind | None:
    """Returns the JobKind in the file; if it is invalid, prints its errors and returns None. Raises Unreadable."""
    for document in documents([file]):
        if document.kind == JobKind.KIND:
            errors = errors_of(document.object)
            for error in errors:
                typer.echo(f"{document.name}: {error}", err=True)
            return None if errors else JobKind.from_wire(document.object)
    raise Unreadable(f"{file}: holds no JobKind")


def _test_output(job: DeclaredJob, sample: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the test's output. Raises InvalidObject if the kind cannot read the sample."""
    pod_sets = job.pod_sets(sample)
    infos = [
        PodSetInfo(
            one.name, one.count, node_selector={"example.com/pool": "x"}, scheduling_gates=(names.TOPOLOGY_GATE,)
        )
        for one in pod_sets
    ]
    finish = job.finished(sample)
    return {
        "podSets": _pod_sets_output(pod_sets),
        "state": {
            "suspended": job.is_suspended(sample),
            "active": job.is_active(sample),
            "ready": job.pods_ready(sample),
            "finished": None if finish is None else {"success": finish.success, "message": finish.message},
            "priorityClass": job.priority_class(sample),
        },
        "start": _plain(job.start(sample, infos)),
        "stop": _plain(job.stop(with_value(sample, job.suspend, job.spec.suspend.running), None)),
    }


def _scaled(kind: ScaledSet, sample: Mapping[str, Any]) -> dict[str, Any]:
    """Raises InvalidObject."""
    meta = sample.get("metadata") or {}
    groups = kind.groups({**sample, "metadata": {"name": "", **meta}}, ())
    selector = kind.selector(sample)
    return {
        "podSets": [one for group in groups for one in _pod_sets_output(group.pod_sets)],
        "replicas": kind.replicas(sample),
        "selector": None if selector is None else _plain(selector),
        "elastic": kind.may_resize(sample),
        "template": "of the object" if kind.template_at else "of its first pod that names the queue",
    }


def _pod_sets_output(pod_sets: Sequence[PodSet]) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "count": one.count,
            "requests": to_texts(effective_requests(pod_spec(one.template))),
            **({"topology": one.topology_request.to_wire()} if one.topology_request else {}),
        }
        for one in pod_sets
    ]


def _plain(patch: Mapping[str, Any] | None) -> Any:
    return None if patch is None else json.loads(json.dumps(patch))
