"""Computes the pod sets of a SparkApplication: driver and executors, whose pods Spark builds from the application's fields.

Memory is what Spark requests from Kubernetes: heap, overhead (`memoryOverhead`, else a factor of the heap, at least 384 MiB),
PySpark memory and off-heap memory. Kueue counts only the heap, which is less than the pods request.

The operator passes `sparkConf` to spark-submit, and then the application's fields, each of which replaces its property. So a
property counts where its field is unset: the number of executors, cores, memory, devices, and the labels, annotations and node
selectors of pods. Source: Spark's "Running on Kubernetes" and the operator's API `sparkoperator.k8s.io/v1beta2` (v2.5.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from admission.integrations.base import Job
from admission.integrations.declared.entries import MOST_PODS, DeclaredPodSet, name_of
from admission.integrations.paths import value_at, with_value, without
from api.errors import InvalidObject
from api.job_kinds import PodSetRule
from api.kube.resources import Resource

_MEMORY: Final = re.compile(r"([0-9]{1,12})([bkmgtp]?)b?", re.IGNORECASE)
_UNITS: Final = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_MIB: Final = 1 << 20
_LEAST_OVERHEAD: Final = 384 * _MIB
_DEFAULT_MEMORY: Final = "1g"
_DEFAULT_EXECUTORS: Final = 2
"""Spark's default where the application sets no number of executors."""
_FACTOR: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,6})?")
_FACTORS: Final = {"python": Fraction("0.4"), "r": Fraction("0.4")}
_FACTOR_OF_JVM: Final = Fraction("0.1")
_CONTAINERS: Final = {"driver": "spark-kubernetes-driver", "executor": "spark-kubernetes-executor"}
_DYNAMIC: Final = "spark.dynamicAllocation.enabled"
_NOT_DYNAMIC: Final = "must be false: the number of executors is what quota and nodes are held for"
_INSTANCES: Final = "spark.executor.instances"
_WHOLE: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_DEVICES: Final = re.compile(r"spark\.(driver|executor)\.resource\.([^.]+)\.amount", re.ASCII)
_GATES: Final = ("template", "spec", "schedulingGates")


class SparkPods:
    """The PodSetFunction of SparkApplication."""

    reads: Final[tuple[Resource, ...]] = ()

    def reference(self, job: Job) -> tuple[Resource, str] | None:
        """Returns None: the application itself defines its pods."""
        return None

    def pod_sets(self, job: Job, rule: PodSetRule) -> Sequence[DeclaredPodSet]:
        """See PodSetFunction."""
        conf = _conf(job)
        if _is_true(conf.get(_DYNAMIC)):
            raise InvalidObject(f"spec.sparkConf[{_DYNAMIC}]", conf[_DYNAMIC], _NOT_DYNAMIC, name_of(job))
        executors = _executors(job, conf)
        counts = {"driver": 1, "executor": executors}
        return [
            DeclaredPodSet(("spec", role), role, {}, job, rule, template=_template(job, role), count=count)
            for role, count in counts.items()
        ]

    def written(self, job: Job, entry: DeclaredPodSet, template: Mapping[str, Any]) -> Job:
        """Writes labels, annotations, node selector, tolerations and scheduling gates of the template into the role's fields.

        Removes the application's shared node selector: the operator rejects it together with a role's node selector, which
        already includes all of its entries.
        """
        role = entry.name
        given = value_at(job, ("spec", role, "template")) or {}
        for part, key in (
            ("metadata", "labels"),
            ("metadata", "annotations"),
            ("spec", "nodeSelector"),
            ("spec", "tolerations"),
        ):
            wanted, own = value_at(template, (part, key)), value_at(given, (part, key)) or {}
            if isinstance(wanted, Mapping):
                own = {**own, **_of_pods(job, "", key), **_of_pods(job, role, key)}
                wanted = {name: value for name, value in wanted.items() if value_at(own, (name,)) != value}
            elif isinstance(wanted, list):
                wanted = [one for one in wanted if one not in list(own)]
            at = ("spec", role, key)
            job = with_value(job, at, wanted) if wanted else without(job, at)
        gates = value_at(template, ("spec", "schedulingGates"))
        job = with_value(job, ("spec", role, *_GATES), gates) if gates else without(job, ("spec", role, *_GATES))
        if value_at(job, ("spec", role, "template")) == {"spec": {}}:
            job = without(job, ("spec", role, "template"))
        shared = value_at(job, ("spec", "nodeSelector"))
        if isinstance(shared, Mapping) and entry.name == "executor":
            job = without(job, ("spec", "nodeSelector"))
        return job


def _template(job: Job, role: str) -> dict[str, Any]:
    given = _mapping(job, f"spec.{role}", ("spec", role))
    pod = _mapping(job, f"spec.{role}.template", ("spec", role, "template"))
    meta, spec = value_at(pod, ("metadata",)) or {}, dict(value_at(pod, ("spec",)) or {})
    containers = [one for one in spec.get("containers") or () if isinstance(one, Mapping)]
    named = next((one for one in containers if one.get("name") == _CONTAINERS[role]), None) or (containers or [{}])[0]
    main = {
        "image": given.get("image") or value_at(job, ("spec", "image")) or "spark",
        **named,
        "name": _CONTAINERS[role],
        "resources": _resources(job, role, given),
    }
    others = [one for one in containers if one is not named]
    spec["containers"] = [main, *others, *(given.get("sidecars") or ())]
    if inits := [*(spec.get("initContainers") or ()), *(given.get("initContainers") or ())]:
        spec["initContainers"] = inits
    shared = {**_of_pods(job, "", "nodeSelector"), **(value_at(job, ("spec", "nodeSelector")) or {})}
    selector = {**shared, **_of_pods(job, role, "nodeSelector"), **(given.get("nodeSelector") or {})}
    values = {
        "nodeSelector": {**(spec.get("nodeSelector") or {}), **selector},
        "tolerations": [*(spec.get("tolerations") or ()), *(given.get("tolerations") or ())],
        "affinity": given.get("affinity"),
        "priorityClassName": given.get("priorityClassName"),
    }
    spec |= {key: value for key, value in values.items() if value}
    merged = {
        key: {**(meta.get(key) or {}), **_of_pods(job, role, key), **(given.get(key) or {})}
        for key in ("labels", "annotations")
    }
    return {"metadata": {key: value for key, value in merged.items() if value}, "spec": spec}


def _resources(job: Job, role: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    conf = _conf(job)
    requested = spec.get("coreRequest") or conf.get(f"spark.kubernetes.{role}.request.cores")
    cpu = str(requested or spec.get("cores") or conf.get(f"spark.{role}.cores") or 1)
    requests: dict[str, str] = {"cpu": cpu, "memory": str(_memory(job, role, spec, conf))}
    limits = {"memory": requests["memory"]}
    if limit := spec.get("coreLimit") or conf.get(f"spark.kubernetes.{role}.limit.cores"):
        limits["cpu"] = str(limit)
    for name, amount in _devices(job, role, conf):
        limits[name] = requests[name] = amount
    gpu = spec.get("gpu")
    if isinstance(gpu, Mapping) and gpu.get("quantity"):
        limits[str(gpu.get("name"))] = requests[str(gpu.get("name"))] = str(gpu["quantity"])
    return {"requests": requests, "limits": limits}


def _conf(job: Job) -> Mapping[str, Any]:
    return _mapping(job, "spec.sparkConf", ("spec", "sparkConf"))


def _is_true(value: Any) -> bool:
    return str(value).lower() == "true"


def _executors(job: Job, conf: Mapping[str, Any]) -> int:
    """Returns the number of executors: none if the driver runs everything itself (a local master). Raises InvalidObject."""
    master = value_at(job, ("spec", "driver", "kubernetesMaster")) or conf.get("spark.kubernetes.driver.master")
    if str(master or "").startswith("local"):
        return 0
    at, number = "spec.executor.instances", value_at(job, ("spec", "executor", "instances"))
    if number is None and (text := conf.get(_INSTANCES)) is not None:
        at, number = f"spec.sparkConf[{_INSTANCES}]", int(text) if _WHOLE.fullmatch(str(text)) else text
    number = _DEFAULT_EXECUTORS if number is None else number
    if type(number) is not int or not 0 <= number <= MOST_PODS:
        raise InvalidObject(at, number, f"must be a whole number from 0 to {MOST_PODS}", name_of(job))
    return number


def _devices(job: Job, role: str, conf: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields extended resources that Spark itself requests for pods of the role. Raises InvalidObject."""
    for key, amount in conf.items():
        match = _DEVICES.fullmatch(key)
        if match is None or match[1] != role:
            continue
        vendor_key = f"spark.{role}.resource.{match[2]}.vendor"
        if not (vendor := conf.get(vendor_key)):
            raise InvalidObject(f"spec.sparkConf[{vendor_key}]", vendor, f"must be set beside {key}", name_of(job))
        if not _WHOLE.fullmatch(str(amount)):
            raise InvalidObject(f"spec.sparkConf[{key}]", amount, "must be a whole number", name_of(job))
        yield f"{vendor}/{match[2]}", str(amount)


def _of_pods(job: Job, role: str, key: str) -> dict[str, str]:
    """Returns labels, annotations or the node selector that properties of `sparkConf` give pods of the role.

    Without a role, those that all pods get: only node selectors.
    """
    part = {"labels": "label", "annotations": "annotation", "nodeSelector": "node.selector"}[key]
    start = f"spark.kubernetes.{role}.{part}." if role else f"spark.kubernetes.{part}."
    values = {name.removeprefix(start): str(value) for name, value in _conf(job).items() if name.startswith(start)}
    return {name: value for name, value in values.items() if name}


def _memory(job: Job, role: str, spec: Mapping[str, Any], conf: Mapping[str, Any]) -> int:
    """Returns the bytes of memory that a pod of the role requests."""
    heap_at, overhead_at = f"spec.{role}.memory", f"spec.{role}.memoryOverhead"
    heap = _bytes(job, heap_at, spec.get("memory") or conf.get(f"spark.{role}.memory") or _DEFAULT_MEMORY)
    overhead = spec.get("memoryOverhead") or conf.get(f"spark.{role}.memoryOverhead")
    kind = str(value_at(job, ("spec", "type")) or "").lower()
    if overhead is not None:
        non_heap = _bytes(job, overhead_at, overhead)
    else:
        non_heap = max(int(heap // _MIB * _factor(job, role, conf, kind)) * _MIB, _LEAST_OVERHEAD)
    if role == "executor":
        if kind == "python" and (more := conf.get("spark.executor.pyspark.memory")):
            non_heap += _bytes(job, "spec.sparkConf", more)
        if _is_true(conf.get("spark.memory.offHeap.enabled")):
            non_heap += _bytes(job, "spec.sparkConf", conf.get("spark.memory.offHeap.size") or "0b", unit="b")
    return heap + non_heap


def _factor(job: Job, role: str, conf: Mapping[str, Any], kind: str) -> Fraction:
    factor = (
        conf.get(f"spark.{role}.memoryOverheadFactor")
        or conf.get("spark.kubernetes.memoryOverheadFactor")
        or value_at(job, ("spec", "memoryOverheadFactor"))
    )
    if factor is None:
        return _FACTORS.get(kind, _FACTOR_OF_JVM)
    if not _FACTOR.fullmatch(str(factor)):
        raise InvalidObject("spec.memoryOverheadFactor", factor, "must be a number such as 0.1", name_of(job))
    return Fraction(str(factor))


def _bytes(job: Job, where: str, text: Any, unit: str = "m") -> int:
    """Parses a JVM memory amount, in MiB where it has no unit, into bytes. Raises InvalidObject."""
    match = _MEMORY.fullmatch(str(text))
    if match is None:
        raise InvalidObject(where, text, "must be an amount of memory such as 512m or 4g", name_of(job))
    return int(match.group(1)) * _UNITS[match.group(2).lower() or unit]


def _mapping(job: Job, where: str, at: tuple[str, ...]) -> Mapping[str, Any]:
    mapping = value_at(job, at)
    if mapping is not None and not isinstance(mapping, Mapping):
        raise InvalidObject(where, mapping, "must be an object", name_of(job))
    return mapping or {}
