"""Reads the devices that pods request by ResourceClaims: whole devices by kind, or why these cannot be counted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from admission.engine.reasons import Reason
from api.cel.cel import CelError, compile_cel
from api.pod.devices import DeviceClass, DeviceRequest, ResourceClaimTemplate, Selector

PREFIX: Final = "devices of "
"""Prefix of device kinds' names, which no resource name has."""
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource by which pods may request devices of any DeviceClass."""
_NATIVE: Final = "kubernetes.io/"
_MOST: Final = 32


class CannotCount(Exception):
    """It cannot be decided now whether a node has the devices; holds the reason and message of the wait."""

    def __init__(self, message: str, reason: Reason = Reason.UNSUPPORTED_POD_TERMS) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """Devices of a class that also satisfy the selectors (CEL) of a request."""

    device_class: str
    selectors: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in the amounts of nodes and pods."""
        if not self.selectors:
            return f"{PREFIX}{self.device_class}"
        return f"{PREFIX}{self.device_class} {sha256(repr(self.selectors).encode()).hexdigest()[:12]}"

    @property
    def shared_name(self) -> str:
        """The name of the amount that pods of this kind and of kinds that share devices with it use together."""
        return f"{self.name}, with kinds that share them"


def claim_templates(spec: Any) -> Iterator[tuple[str, str]]:
    """Yields (name, ResourceClaimTemplate) of each resource claim of a pod spec; the template is empty for a claim by name."""
    claims = spec.get("resourceClaims") if isinstance(spec, Mapping) else None
    for claim in claims[:_MOST] if isinstance(claims, (list, tuple)) else ():
        if isinstance(claim, Mapping):
            template = claim.get("resourceClaimTemplateName")
            yield (
                str(claim.get("resourceClaimName") or claim.get("name")),
                template if isinstance(template, str) else "",
            )


def extended_resources(spec: Any) -> set[str]:
    """Returns the extended resources that the containers of a pod spec request, of which a DeviceClass may be the source."""
    names = set[str]()
    for field in ("initContainers", "containers"):
        containers = spec.get(field) if isinstance(spec, Mapping) else None
        for container in containers if isinstance(containers, (list, tuple)) else ():
            resources = container.get("resources") if isinstance(container, Mapping) else None
            for amounts in (resources or {}).values() if isinstance(resources, Mapping) else ():
                names.update(str(name) for name in amounts if isinstance(amounts, Mapping) and "/" in str(name))
    return {name for name in names if name.startswith(IMPLICIT) or _NATIVE not in name}


def kinds_of(template: ResourceClaimTemplate, classes: Mapping[str, DeviceClass]) -> Counter[DeviceKind]:
    """Returns the number of devices of each kind that one pod gets from the template. Raises CannotCount."""
    name, kinds = f"ResourceClaimTemplate {template.metadata.name}", Counter[DeviceKind]()
    if template.devices.constraints:
        raise CannotCount(f"{name}: constraints between devices are not counted")
    for request in template.devices.requests:
        kinds[_kind(request, classes, name)] += _count(request)
    return kinds


def _kind(request: DeviceRequest, classes: Mapping[str, DeviceClass], name: str) -> DeviceKind:
    exactly, where = request.exactly, f"{name}: request {request.name}"
    if exactly is None:
        raise CannotCount(f"{where}: alternatives (firstAvailable) are not counted")
    if exactly.allocation_mode != "ExactCount" or exactly.admin_access or exactly.capacity:
        raise CannotCount(f"{where}: only whole devices by number are counted (allocationMode ExactCount)")
    known = classes.get(exactly.device_class_name)
    if known is None:
        text = f"{where}: waits for DeviceClass {exactly.device_class_name} to be created"
        raise CannotCount(text, Reason.WAITING_FOR_OBJECTS)
    expressions(known.spec.selectors, f"DeviceClass {known.key}")
    return DeviceKind(known.key, expressions(exactly.selectors, where))


def _count(request: DeviceRequest) -> int:
    return max(1, request.exactly.count) if request.exactly is not None else 0


def expressions(selectors: tuple[Selector, ...], name: str) -> tuple[str, ...]:
    """Returns the CEL expressions of the selectors. Raises CannotCount for an unsupported expression."""
    texts = tuple(each.cel.expression if each.cel is not None else "" for each in selectors)
    for text in texts:
        try:
            compile_cel(text)
        except CelError as why:
            raise CannotCount(f"{name}: the selector {text[:200]!r} is not understood: {why}") from None
    return texts
