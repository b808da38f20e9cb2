"""Creates objects that another replica or a user may create at the same time."""

from __future__ import annotations

import logging

from api.errors import AlreadyExists
from api.kube.client import Kube
from api.kube.resources import Resource
from api.meta import KubeObject

log = logging.getLogger(__name__)


async def create_unless_present(kube: Kube, resource: Resource, obj: KubeObject) -> None:
    """Creates the object; one of the same name is not an error. Raises other ApiErrors."""
    try:
        await kube.create(resource, obj.to_wire())
    except AlreadyExists:
        log.debug("%s %s is there already", resource.kind, obj.key)
