"""The nodes for which a CSI driver can still provision a volume: kube-scheduler's check of CSIStorageCapacity. No IO.

Only drivers whose CSIDriver says `storageCapacity: true` are checked. As in kube-scheduler, each volume is compared with the
capacity by itself: what the gang's other volumes take is known only after the driver has provisioned them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from admission.controllers.watch.local_copies import Copy
from admission.controllers.watch.volumes.reach import Selector
from admission.engine.model import NodeSelectorRequirement, NodeSelectorTerm
from api.errors import InvalidObject
from api.kube.informers.store import Change
from api.pod.volumes import ClaimSpec, CsiCapacity, CsiDriver, NodeLabels, StorageClass
from api.text.quantity import to_int

_BY_CLASS: Final = "class"
_STORAGE: Final = "storage"
_MOST: Final = 64
"""The maximum number of selected groups of nodes; dropping the rest may refuse a node, but never accepts one wrongly."""


class DriverCapacity:
    """Which nodes a driver can provision for. `changed` is called with a class whose capacity has changed."""

    def __init__(self, drivers: Copy[CsiDriver], capacities: Copy[CsiCapacity], changed: Callable[[str], None]) -> None:
        self._drivers, self._capacities, self._changed = drivers, capacities, changed
        capacities.add_index(_BY_CLASS, lambda each: [each.storage_class_name])
        capacities.add_handler(self._capacity_changed)

    def nodes(self, storage_class: StorageClass, spec: ClaimSpec) -> Selector | None:
        """Returns the nodes with capacity for a volume of the claim; None if the driver does not tell, or all have it."""
        size, driver = (
            amount(spec.resources.requests.get(_STORAGE)),
            self._drivers.objects.get(storage_class.provisioner),
        )
        if size is None or driver is None or not driver.spec.storage_capacity:
            return None
        terms = dict[NodeSelectorTerm, None]()
        for each in self._capacities.by_index(_BY_CLASS, storage_class.key):
            largest = amount(each.capacity if each.maximum_volume_size is None else each.maximum_volume_size)
            if largest is None or largest < size or each.node_topology is None:
                continue
            term = _term(each.node_topology)
            if not term.match_expressions:
                return None
            terms[term] = None
        return tuple(terms)[:_MOST]

    def _capacity_changed(self, change: Change[CsiCapacity]) -> None:
        was, now = change.old, change.object
        if was is None or (was.capacity, was.maximum_volume_size) != (now.capacity, now.maximum_volume_size):
            self._changed(now.storage_class_name)


def amount(quantity: str | int | float | None) -> int | None:
    """Returns the bytes; None if nothing is given or it cannot be read."""
    try:
        return None if quantity is None else to_int(_STORAGE, quantity)
    except InvalidObject:
        return None


def _term(selector: NodeLabels) -> NodeSelectorTerm:
    alike = [
        NodeSelectorRequirement(key=key, operator="In", values=(value,)) for key, value in selector.match_labels.items()
    ]
    others = [
        NodeSelectorRequirement(key=one.key, operator=one.operator, values=one.values)
        for one in selector.match_expressions
    ]
    return NodeSelectorTerm(match_expressions=(*alike, *others))
