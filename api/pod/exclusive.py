"""Properties of a node that only one pod can have: host ports, disks that pods name themselves, and the node itself among pods
with required anti-affinity.

All become amounts like resources: a node has 1 of each name and a pod uses it, except for host ports that pods take at one
address (`host_ports`). Node capacity, usage of bound pods and placement of gangs then need no further rule.

Of required pod anti-affinity this covers terms with the topology key `kubernetes.io/hostname` that select the pod itself. A pod
that such a term selects but that does not have the term is not counted. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any, Final

from api.names import HOSTNAME_LABEL
from api.pod.labels import matches
from api.pod.pods import PodAffinityTerm, PodSpec
from api.text.quantity import Resources

HOST_PORT: Final = "host port "
HOST_ADDRESS: Final = "host address "
"""Prefix of the names of one port at one address of the node."""
DISK: Final = "disk "
ANTI_AFFINITY: Final = "pod anti-affinity "
PREFIXES: Final = (HOST_PORT, HOST_ADDRESS, DISK, ANTI_AFFINITY)
"""Prefixes of the names; no resource's name starts with one."""

ALL_ADDRESSES: Final = 1 << 20
"""The amount of a host port that a node has, and that a pod uses which takes the port at every address; at one address a pod
uses 1.
"""

_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_EVERY: Final = "0.0.0.0"
# Limits of one pod's counted ports, of its disks and terms, and of a name's length, because any user can write them.
_MOST_PORTS, _MOST, _LONGEST = 128, 64, 120


def exclusive(spec: PodSpec, namespace: str, labels: Mapping[str, str]) -> Resources:
    """Returns the exclusive names that a pod with this namespace and these labels uses, and how much of each.

    The names determine the amounts.
    """
    return {**host_ports(spec), **disks(spec), **_kept_away(spec, namespace, labels)}


def host_ports(spec: PodSpec) -> Resources:
    """Returns the host ports that a pod uses: kube-scheduler's filter NodePorts.

    A port without hostIP, or with 0.0.0.0, takes the port at every address; else pods with different addresses may share a
    node. With hostNetwork each container port is a host port, which a template does not state yet. As in kube-scheduler,
    ordinary init containers are ignored.
    """
    addresses: dict[str, dict[str, None]] = {}
    for port, address in islice(_addressed_ports(spec), _MOST_PORTS):
        addresses.setdefault(port, {})[address] = None
    ports: Resources = {}
    for port, at in addresses.items():
        if _EVERY in at:
            ports[f"{HOST_PORT}{port}"] = ALL_ADDRESSES
        else:
            ports[f"{HOST_PORT}{port}"] = len(at)
            ports.update((_short(f"{HOST_ADDRESS}{port} {address}"), 1) for address in at)
    return ports


def _addressed_ports(spec: PodSpec) -> Iterator[tuple[str, str]]:
    """Yields each host port with its protocol, and the address."""
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    for port in (port for container in (*spec.containers, *sidecars) for port in container.ports):
        number, protocol = port.host_port or (port.container_port if spec.host_network else 0), port.protocol or "TCP"
        if 0 < number < 65536 and protocol in _PROTOCOLS:
            yield f"{protocol}/{number}", port.host_ip or _EVERY


def node_has(name: str) -> int:
    """Returns how much a node has of an exclusive name."""
    return ALL_ADDRESSES if name.startswith(HOST_PORT) else 1


def disks(spec: PodSpec) -> Resources:
    """Returns 1 for each disk that a pod names itself and writes to: kube-scheduler's filter VolumeRestrictions.

    Disks that all pods mount read-only may be on one node together; only EBS volumes may not.
    """
    used: Resources = {}
    for volume in spec.volumes[:_MOST]:
        gce, iscsi, rbd = volume.gce_persistent_disk, volume.iscsi, volume.rbd
        if gce is not None and not gce.read_only:
            used[_short(f"{DISK}gcePersistentDisk {gce.pd_name}")] = 1
        if volume.aws_elastic_block_store is not None:
            used[_short(f"{DISK}awsElasticBlockStore {volume.aws_elastic_block_store.volume_id}")] = 1
        if iscsi is not None and not iscsi.read_only:
            used[_short(f"{DISK}iscsi {iscsi.iqn}")] = 1
        if rbd is not None and not rbd.read_only:
            used[_short(f"{DISK}rbd {rbd.pool}/{rbd.image}")] = 1
    return used


def _kept_away(spec: PodSpec, namespace: str, labels: Mapping[str, str]) -> Resources:
    anti = spec.affinity.pod_anti_affinity if spec.affinity else None
    terms = anti.required_during_scheduling_ignored_during_execution if anti else ()
    kept: Resources = {}
    for term in terms[:_MOST]:
        if term.topology_key != HOSTNAME_LABEL or not _in_namespace(term, namespace):
            continue
        if (name := _term_name(term, namespace, labels)) is not None:
            kept[name] = 1
    return kept


def _term_name(term: PodAffinityTerm, namespace: str, labels: Mapping[str, str]) -> str | None:
    """Returns the term's name, or None if the term does not select the pod itself or cannot be read."""
    try:
        selector = _selector(term, labels)
        return _name(namespace, selector) if matches(selector, labels) else None
    except (AttributeError, KeyError, TypeError):
        return None


def _in_namespace(term: PodAffinityTerm, namespace: str) -> bool:
    """Reports whether the term includes the pod's namespace. A non-empty namespaceSelector counts as no."""
    if term.namespace_selector is not None and not term.namespace_selector:
        return True
    if term.namespaces:
        return namespace in term.namespaces
    return term.namespace_selector is None


def _selector(term: PodAffinityTerm, labels: Mapping[str, str]) -> dict[str, Any] | None:
    """Returns the term's selector with the API server's additions for matchLabelKeys and mismatchLabelKeys."""
    if term.label_selector is None:
        return None
    expressions = list(term.label_selector.get("matchExpressions") or ())
    for keys, operator in ((term.match_label_keys, "In"), (term.mismatch_label_keys, "NotIn")):
        for key in keys:
            added = {"key": key, "operator": operator, "values": [labels.get(key)]}
            if key in labels and added not in expressions:
                expressions.append(added)
    return {"matchLabels": term.label_selector.get("matchLabels") or {}, "matchExpressions": expressions}


def _name(namespace: str, selector: Mapping[str, Any] | None) -> str:
    """Returns the same name for selectors with the same requirements in any order."""
    given = selector or {}
    words = [f"{key}={value}" for key, value in given.get("matchLabels", {}).items()]
    words += [_words(expression) for expression in given.get("matchExpressions", ())]
    return _short(f"{ANTI_AFFINITY}{namespace}/{' and '.join(sorted(words))}", json.dumps(sorted(words)))


def _short(name: str, whole: str = "") -> str:
    """Returns the name, or for a long one its beginning and a hash of `whole` (default: of the name)."""
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 17]} {sha256((whole or name).encode()).hexdigest()[:16]}"


def _words(expression: Mapping[str, Any]) -> str:
    values = ",".join(sorted(map(str, expression.get("values") or ())))
    return f"{expression['key']} {expression['operator']} {values}".strip()
