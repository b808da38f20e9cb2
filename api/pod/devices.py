"""The fields of ResourceSlices, DeviceClasses and ResourceClaimTemplates (resource.k8s.io) that counting whole devices needs.

Objects are decoded into these types, which skip all other fields, and are never written back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from api.pod.pods import Meta, _Wire


class _Pool(_Wire, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class _Taint(_Wire, frozen=True):
    effect: str = ""


class Device(_Wire, frozen=True):
    """A device that a driver offers. `attributes` maps a name to a map from one type name to the value."""

    name: str = ""
    attributes: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[dict[str, Any], ...] = ()
    taints: tuple[_Taint, ...] = ()
    node_name: str | None = None
    allow_multiple_allocations: bool = False
    binding_conditions: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Reports whether the device can be given to one pod as a whole, without shared counters or NoSchedule taints."""
        repels = any(taint.effect in ("NoSchedule", "NoExecute") for taint in self.taints)
        special = self.consumes_counters or self.allow_multiple_allocations or self.binding_conditions
        return not (repels or special)

    def scope(self, driver: str) -> Mapping[str, Any]:
        """Returns the variables of CEL expressions about the device: its attributes by domain and name."""
        domains: dict[str, dict[str, Any]] = {driver: {}}
        for name, value in self.attributes.items():
            domain, slash, short = name.rpartition("/")
            domains.setdefault(domain if slash else driver, {})[short] = next(iter(value.values()), None)
        return {"device": {"driver": driver, "attributes": domains}}


class _SliceSpec(_Wire, frozen=True):
    driver: str = ""
    node_name: str = ""
    pool: _Pool = _Pool()
    devices: tuple[Device, ...] = ()


class ResourceSlice(_Wire, frozen=True):
    """Devices of one driver; of one node if `node_name` is set."""

    metadata: Meta = Meta()
    spec: _SliceSpec = _SliceSpec()

    @property
    def key(self) -> str:
        """The object's name."""
        return self.metadata.name


class _Cel(_Wire, frozen=True):
    expression: str = ""


class Selector(_Wire, frozen=True):
    """A condition on devices. `cel` is None for an unsupported kind of condition."""

    cel: _Cel | None = None


class _ClassSpec(_Wire, frozen=True):
    selectors: tuple[Selector, ...] = ()
    extended_resource_name: str = ""


class DeviceClass(_Wire, frozen=True):
    """A class of devices, selected by conditions."""

    metadata: Meta = Meta()
    spec: _ClassSpec = _ClassSpec()

    @property
    def key(self) -> str:
        """The object's name."""
        return self.metadata.name


class ExactRequest(_Wire, frozen=True):
    """A request for a number of devices of a class. None or empty fields request nothing."""

    device_class_name: str = ""
    selectors: tuple[Selector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool | None = None
    capacity: dict[str, Any] | None = None


class DeviceRequest(_Wire, frozen=True):
    """One request of a claim: `exactly`, or (not read here) the first that is available of a list."""

    name: str = ""
    exactly: ExactRequest | None = None


class _Devices(_Wire, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[dict[str, Any], ...] = ()


class _ClaimSpec(_Wire, frozen=True):
    devices: _Devices = _Devices()


class _TemplateSpec(_Wire, frozen=True):
    spec: _ClaimSpec = _ClaimSpec()


class ResourceClaimTemplate(_Wire, frozen=True):
    """The template of the claim that each pod gets."""

    metadata: Meta = Meta()
    spec: _TemplateSpec = _TemplateSpec()

    @property
    def devices(self) -> _Devices:
        """The requested devices."""
        return self.spec.spec.devices
