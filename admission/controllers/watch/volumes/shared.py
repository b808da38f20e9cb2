"""The nodes for pods that share a claim whose volume is chosen when the first of them is bound. Pure.

kube-scheduler chooses the volume by the node of that pod, and the others must reach it. So all pods are placed in one domain
whose nodes reach the same volumes: the nodes with one value of the label by which the volumes name their nodes (a host, a
zone), or one topology segment of the driver that provisions the volume (`topologyKeys` of its CSINodes). Volumes that name
their nodes in other ways are not counted: their workload waits with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from admission.controllers.watch.volumes.reach import BoundTo, CannotBind, Selector, one_of, reach, selectors
from admission.engine.reasons import Reason
from api.pod.volumes import StorageClass, Volume


def one_volume(
    fitting: Sequence[Volume],
    storage_class: StorageClass,
    claim: str,
    provisioned: Selector | None,
    driver_keys: Sequence[str],
    *,
    pod_sets: int,
) -> BoundTo:
    """Returns the nodes, and the topology keys of which one domain must hold all pods. Raises CannotBind.

    `fitting` are the volumes that may be chosen, in order; `provisioned` are the nodes for which the class provisions one.
    `driver_keys` are the topology keys of the class's driver. Pods of
    several pod sets are not placed in one domain of a key, so they get the domain of the first volume.
    """
    reached = list(dict.fromkeys(map(reach, fitting)))
    if not storage_class.provisions and len(reached) == 1:
        return BoundTo(selectors(reached[0]), storage_class.provisioner)
    keys = dict.fromkeys(_keys(reached, f"{claim}: several pods share it", storage_class))
    if storage_class.provisions:
        keys |= dict.fromkeys(driver_keys)
        keys |= dict.fromkeys(_allowed_keys(storage_class))
        reached.append(provisioned)
    if pod_sets == 1:
        return BoundTo(
            one_of(reached, storage_class.provisioner).selectors, storage_class.provisioner, tuple(sorted(keys))
        )
    if storage_class.provisions and keys:
        text = f"{claim}: several pod sets share it, and which domain of {' and '.join(keys)} its volume is in is not known"
        raise CannotBind(text, Reason.UNSUPPORTED_POD_TERMS)
    return BoundTo(selectors(reached[0]), storage_class.provisioner)


def _keys(reached: Iterable[Selector | None], claim: str, storage_class: StorageClass) -> Iterable[str]:
    """Yields the label key by which the volumes name their nodes. Raises CannotBind if they do not all name one value of it."""
    named = [_one_value(each) for each in reached]
    if len(set(named)) > 1 or None in named:
        volumes = f"the PersistentVolumes of StorageClass {storage_class.key}"
        text = f"{claim}, and {volumes} do not name their nodes by one label alike"
        raise CannotBind(text, Reason.UNSUPPORTED_POD_TERMS)
    return [key for key in named if key]


def _one_value(selector: Selector | None) -> str | None:
    """Returns the key of a selector of one value of one label, else None."""
    if selector is None or len(selector) != 1 or selector[0].match_fields or len(selector[0].match_expressions) != 1:
        return None
    one = selector[0].match_expressions[0]
    return one.key if one.operator == "In" and len(one.values) == 1 else None


def _allowed_keys(storage_class: StorageClass) -> Iterable[str]:
    return (one.key for term in storage_class.allowed_topologies for one in term.match_label_expressions)
