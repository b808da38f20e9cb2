"""Adds what the API server adds to pods from their RuntimeClass: overhead, node selector, tolerations. Pure.

A job's template lacks these, though they decide what a pod requests and which nodes accept it. Pods whose RuntimeClass is
missing or contradicts them would be rejected at creation, so their Workload waits with that reason (`refusal`). resources.py
and cluster_view.py call it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from admission.engine.reasons import Reason
from api.pod import pods
from api.workloads import Workload


class Overhead(msgspec.Struct, frozen=True, rename="camel"):
    """The resources that a runtime itself uses."""

    pod_fixed: dict[str, str | int | float] = {}


class RuntimeScheduling(msgspec.Struct, frozen=True, rename="camel"):
    """The nodes that have the runtime, and the tolerations of its pods."""

    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()


class RuntimeClass(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of a node.k8s.io RuntimeClass that affect scheduling."""

    metadata: pods.Meta = pods.Meta()
    overhead: Overhead | None = None
    scheduling: RuntimeScheduling | None = None

    @property
    def given(self) -> tuple[Overhead | None, RuntimeScheduling | None]:
        """Everything that pods get from the class."""
        return self.overhead, self.scheduling


Classes = Mapping[str, RuntimeClass]


def named(workload: Workload) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yields (field, spec, RuntimeClass) of each pod set that names a RuntimeClass."""
    for index, pod_set in enumerate(workload.spec.pod_sets):
        spec: Any = pod_set.template.get("spec")
        if isinstance(spec, Mapping) and (name := spec.get("runtimeClassName")) and isinstance(name, str):
            yield f"spec.podSets[{index}].template.spec", spec, name


def overhead_of(spec: Mapping[str, Any], classes: Classes) -> dict[str, str | int | float]:
    """Returns the overhead that the pods get; empty if they already have one."""
    runtime = classes.get(spec.get("runtimeClassName") or "")
    return runtime.overhead.pod_fixed if runtime and runtime.overhead and not spec.get("overhead") else {}


def scheduled(workload: Workload, classes: Classes) -> Workload:
    """Returns the Workload with node selectors and tolerations of its RuntimeClasses, or the same object without any."""
    changed = dict[int, dict[str, Any]]()
    for index, pod_set in enumerate(workload.spec.pod_sets):
        spec = pod_set.template.get("spec") or {}
        runtime = classes.get(spec.get("runtimeClassName") or "")
        if runtime is not None and (given := runtime.scheduling) and (given.node_selector or given.tolerations):
            changed[index] = {**pod_set.template, "spec": _with(spec, given)}
    if not changed:
        return workload
    pod_sets = tuple(
        pod_set.model_copy(update={"template": changed[index]}) if index in changed else pod_set
        for index, pod_set in enumerate(workload.spec.pod_sets)
    )
    return workload.model_copy(update={"spec": workload.spec.model_copy(update={"pod_sets": pod_sets})})


def _with(spec: Mapping[str, Any], scheduling: RuntimeScheduling) -> dict[str, Any]:
    own = list(spec.get("tolerations") or ())
    return {
        **spec,
        "nodeSelector": {**(spec.get("nodeSelector") or {}), **scheduling.node_selector},
        "tolerations": [*own, *(each for each in scheduling.tolerations if each not in own)],
    }


def refusal(workload: Workload, classes: Classes) -> tuple[str, str] | None:
    """Returns why the API server would reject the Workload's pods, as (reason, message), or None."""
    for field, spec, name in named(workload):
        runtime = classes.get(name)
        if runtime is None:
            text = f'{field}.runtimeClassName: RuntimeClass "{name}" does not exist: its pods would be refused'
            return Reason.WAITING_FOR_OBJECTS, text
        if conflict := _conflict(spec, runtime):
            return Reason.MISCONFIGURED, f"{field}: the pods would be refused: {conflict}"
    return None


def _conflict(spec: Mapping[str, Any], runtime: RuntimeClass) -> str | None:
    own, name = spec.get("nodeSelector") or {}, runtime.metadata.name
    if not isinstance(own, Mapping):
        return None
    for key, value in sorted(runtime.scheduling.node_selector.items()) if runtime.scheduling else ():
        if key in own and own[key] != value:
            return f'nodeSelector[{key}] is "{own[key]}", RuntimeClass {name} requires "{value}"'
    return None
