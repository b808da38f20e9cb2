"""AdmissionCheck: a condition of admission that an external controller decides."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from api.meta import Condition, KubeModel, KubeObject
from api.names import API_VERSION
from api.schema import (
    CONDITIONS,
    DNS_LABEL,
    DNS_SUBDOMAIN,
    IMMUTABLE,
    schema,
)


class CheckParameters(KubeModel):
    """Reference to parameters of the check's controller."""

    api_group: Annotated[str, schema("API group of the parameters.", maxLength=253, pattern=DNS_SUBDOMAIN)]
    kind: Annotated[
        str, schema("Kind of the parameters.", maxLength=63, pattern="^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$")
    ]
    name: Annotated[str, schema("Name of the parameters.", mandatory=True, maxLength=63, pattern=DNS_LABEL)] = ""


class AdmissionCheckSpec(KubeModel):
    """The controller of an admission check, and its parameters."""

    controller_name: Annotated[
        str,
        schema(
            "The controller that answers the check.",
            mandatory=True,
            minLength=1,
            maxLength=253,
            x_kubernetes_validations=IMMUTABLE,
        ),
    ] = ""
    parameters: CheckParameters | None = None


class AdmissionCheckStatus(KubeModel):
    """Condition Active of an admission check."""

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()


class AdmissionCheck(KubeObject):
    """A check by another controller that each workload must pass before admission."""

    API_VERSION: ClassVar[str] = API_VERSION
    KIND: ClassVar[str] = "AdmissionCheck"

    spec: AdmissionCheckSpec = Field(default_factory=AdmissionCheckSpec)
    status: AdmissionCheckStatus = Field(default_factory=AdmissionCheckStatus)
