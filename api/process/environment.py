"""Settings that all processes share, read once from a YAML file and the environment.

`STOWAGE_CONFIG` names the file; variables `STOWAGE_<NAME>` (nested with `__`, as in `STOWAGE_CLIENT__QPS`) take precedence.
Keys in the file are camelCase, as in manifests. An unknown key is an error, which catches typos; a missing file is an error,
so that a process never runs with defaults instead of its settings. Unknown variables are ignored, because Kubernetes sets
some for the webhook's Service.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource

from api.errors import InvalidObject
from api.kube.settings import ClientSettings, InformerSettings, LeaderSettings, ProcessSettings, TracingSettings
from api.process.unsupported_keys import answer_for
from api.text.manifests import parsed

CONFIG_VARIABLE = "STOWAGE_CONFIG"


class Section(BaseModel):
    """A nested group of settings: frozen, camelCase in files, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, alias_generator=to_camel)


class ClientSection(Section):
    """Requests to the API server."""

    qps: float = Field(0.0, ge=0, description="requests per second; 0: no client-side limit")
    burst: int = Field(200, ge=1, description="requests that may be sent at once above qps")
    concurrency: int = Field(
        384,
        ge=1,
        description="requests in flight; less than the number of concurrent writers makes them wait for each other",
    )
    timeout: float = Field(30.0, gt=0, description="seconds for one attempt of a request")


class InformerSection(Section):
    """Lists and watches."""

    page_size: int = Field(500, ge=1, description="objects per page of a list")
    silence: float = Field(150.0, gt=0, description="seconds without any event or bookmark that end a watch")


class LeaseSection(Section):
    """Leader election; durations in seconds."""

    enabled: bool = Field(True, description="elect a leader among the replicas; off: there is only one replica")
    duration: float = Field(15.0, description="seconds without renewal after which another replica takes over")
    renew_deadline: float = Field(10.0, description="seconds after which a leader that cannot renew stops")
    retry_period: float = Field(2.0, description="seconds between two attempts to renew or to take over")


class TracingSection(Section):
    """Traces of workloads."""

    endpoint: str = Field(
        "",
        pattern="^(https?://.+)?$",
        description="URL of an OpenTelemetry collector (OTLP, HTTP): `http://collector.example:4318/v1/traces`; empty: none",
    )
    sampling: float = Field(1.0, ge=0, le=1, description="share of the new objects that are traced")


class Environment(BaseSettings):
    """Settings that each process needs."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix="STOWAGE_",
        env_nested_delimiter="__",
        populate_by_name=True,
        alias_generator=None,
    )

    config: Path | None = None
    kubeconfig: Path | None = Field(
        None, description="path of the kubeconfig; none: the cluster in which the process runs"
    )
    context: str | None = Field(None, description="context in the kubeconfig; none: its current context")
    namespace: str = Field("stowage-system", description="namespace of the processes")
    identity: str = Field(
        default_factory=lambda: f"{socket.gethostname()}_{os.getpid()}",
        description="name of the process in leader election",
    )
    health_host: str = Field("0.0.0.0", description="listen address of /healthz, /readyz and /metrics")
    health_port: int = Field(8081, ge=0, le=65535, description="port of these; 0 selects a free one")
    health_authentication: bool = Field(False, description="authenticate requests for metrics, except on loopback")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="lowest level that is logged")
    log_json: bool = Field(True, description="log JSON lines; off: text")
    sync_timeout: float = Field(120.0, gt=0, description="seconds to wait for the first lists")
    client: ClientSection = ClientSection()
    informer: InformerSection = InformerSection()
    lease: LeaseSection = LeaseSection()
    tracing: TracingSection = TracingSection()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Returns the sources: arguments take precedence over variables, variables over the file."""
        path = os.environ.get(CONFIG_VARIABLE)
        sources = (init_settings, env_settings)
        return (*sources, _File(settings_cls, Path(path))) if path else sources

    def client_settings(self, process: str) -> ClientSettings:
        """Returns the settings for Kube.connect."""
        return ClientSettings(
            kubeconfig=self.kubeconfig,
            context=self.context,
            user_agent=f"stowage-{process}",
            timeout=self.client.timeout,
            concurrency=self.client.concurrency,
            qps=self.client.qps,
            burst=self.client.burst,
            informers=InformerSettings(page_size=self.informer.page_size, silence=self.informer.silence),
        )

    def process_settings(self, process: str) -> ProcessSettings:
        """Returns the settings for api.process.process."""
        return ProcessSettings(
            name=f"stowage-{process}",
            health_host=self.health_host,
            health_port=self.health_port,
            authenticate=self.health_authentication,
            log_level=self.log_level,
            log_json=self.log_json,
            tracing=TracingSettings(self.tracing.endpoint, self.tracing.sampling),
        )

    def leader_settings(self, process: str) -> LeaderSettings:
        """Returns the settings of the process's Lease. Raises ValueError if the durations contradict each other."""
        return LeaderSettings(
            namespace=self.namespace,
            name=f"stowage-{process}",
            identity=self.identity,
            lease_duration=self.lease.duration,
            renew_deadline=self.lease.renew_deadline,
            retry_period=self.lease.retry_period,
        )


E = TypeVar("E", bound=Environment)


def from_map(model: type[E], contents: dict[str, Any], variables: Mapping[str, str] | None = None) -> E:
    """Returns the settings that a file with these contents and these variables set, whatever this process's environment is.

    Raises ValidationError.
    """

    class Given(model):  # type: ignore[valid-type, misc]
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (init_settings,)

    merged = _by_field(model, contents)
    for name, value in (variables or {}).items():
        *above, last = name.removeprefix("STOWAGE_").lower().split("__")
        section = merged
        for part in above:
            section = section.setdefault(part, {})
        section[last] = _value(value)
    settings: E = Given(**merged)
    return settings


def _value(variable: str) -> Any:
    """Returns the value of a variable, from JSON for a section or list. Other text stays, and the model calls it invalid."""
    try:
        return json.loads(variable) if variable.startswith(("{", "[")) else variable
    except ValueError:
        return variable


BAD_SETTINGS: Final = (ValidationError, InvalidObject)
"""Errors of constructing an Environment: an invalid value, or an unreadable file."""


def faults(bad: ValidationError | InvalidObject) -> str:
    """Returns one line for each invalid setting: its name, the given value, and what is allowed."""
    if isinstance(bad, InvalidObject):
        return str(bad)
    return "\n".join(map(_fault, bad.errors()))


def _fault(error: ErrorDetails) -> str:
    """Names the setting as the file does, with the file's path, unless a variable sets it."""
    loc, path = [str(part) for part in error["loc"]], os.environ.get(CONFIG_VARIABLE)
    wanted = _bare("stowage" + "".join(loc))
    if path and not any(_bare(name) == wanted for name in os.environ):
        named, source = [to_camel(part) if "_" in part else part for part in loc], f" (in {path})"
    else:
        named, source = loc, ""
    return f"settings: {'.'.join(named)}: {error['input']!r}: {_wrong(error)}{source}"


def _bare(name: str) -> str:
    return name.replace("_", "").lower()


def _wrong(error: ErrorDetails) -> str:
    return answer_for(error["loc"]) if error["type"] == "extra_forbidden" else error["msg"]


class _File(YamlConfigSettingsSource):
    """Settings from the YAML file, with camelCase keys converted to field names.

    Raises InvalidObject if the file is missing, unreadable, or not a map.
    """

    def __init__(self, settings_cls: type[BaseSettings], path: Path) -> None:
        if not path.is_file():
            raise InvalidObject(CONFIG_VARIABLE, str(path), "no such file", "settings")
        try:
            super().__init__(settings_cls, yaml_file=path)
        except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
            raise InvalidObject(CONFIG_VARIABLE, str(path), f"must be a YAML map: {error}", "settings") from error

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        """Reads the file by the reader of all YAML."""
        given: Any = next(iter(parsed(file_path.read_text(encoding="utf-8"))), {})
        if not isinstance(given, dict):
            raise TypeError(f"not {type(given).__name__}")
        return given

    def __call__(self) -> dict[str, Any]:
        return _by_field(self.settings_cls, super().__call__())


def _by_field(model: type[BaseModel], contents: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings by field name, also in sections, so that a variable overrides the same setting of the file."""
    names = {field.alias or to_camel(name): name for name, field in model.model_fields.items()}
    return {
        (name := names.get(key, key)): _by_field(section, value)
        if isinstance(value, dict) and (section := _section(model, name)) is not None
        else value
        for key, value in contents.items()
    }


def _section(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    field = model.model_fields.get(name)
    kinds = (field.annotation, *get_args(field.annotation)) if field else ()
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
