"""config_validation: Kueue's configuration read as settings: what Kueue refuses is refused, by a setting at the same place.

A key that Stowage does not have is an error with an answer in words, so a configuration that Kueue accepts may have such errors
and no other. Kueue has no switches for sections; here they are on.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
import yaml
from pydantic import ValidationError

from admission.settings import AdmissionSettings
from api.kube.environment import from_map
from api.kube.unsupported_keys import UNKNOWN, answer_for

Json = dict[str, Any]

OUTSIDE: Final = {
    "TestLoad/ControllerManager": "settings of the processes have other names (docs/settings.md)",
    "TestLoad/cert": "webhook.certificates is the setting",
    "TestLoad/clientConnection": "client.qps is the setting",
    "TestLoad/disable cert": "webhook.certificates is the setting",
    "TestLoad/leaderElection": "lease is the setting",
    "TestLoad/multiKueue": "MultiKueue: Stowage runs in one cluster",
    "TestLoad/empty": "Kueue's defaults of these settings are compared by the suites that use them",
    "TestLoad/objectRetentionPolicies": "a file has settings, and is no object",
    "TestValidate/empty integrations.frameworks": "the managed kinds are no setting: none has to be named",
    "invalid .visibilityServer.bindPort": "port 0 selects a free one, as for all servers",
    "feature gate is enabled": "DisableWaitForPodsReady is no gate: waitForPodsReady.enabled is the switch",
}
_SWITCHES: Final = {"waitForPodsReady": "enabled", "fairSharing": "enable", "visibilityServer": "enabled"}
_OBJECT: Final = ("apiVersion", "kind")


def run(case: Json) -> None:
    """By the Go test that the case is of."""
    for part, reason in OUTSIDE.items():
        if part in case["name"]:
            pytest.skip(reason)
    if case["name"] == "TestValidate/empty":
        pytest.skip(OUTSIDE["TestValidate/empty integrations.frameworks"])
    given, want = case["input"], case["want"]
    config = given.get("cfg") or {}
    match case["name"].split("/")[0]:
        case "TestLoad":
            assert _refused(yaml.safe_load(given["content"]))
        case "TestWaitForPodsReadyIsEnabled":
            assert want["want"]
            assert not _errors({"waitForPodsReady": config["waitForPodsReady"]})
        case "TestLoadAndValidateFeatureGates":
            _compared(
                {"featureGates": given.get("featureGateMap") or _from_text(given.get("featureGatesCLI", ""))}, want
            )
        case "TestValidateDeviceClassMappings":
            _compared({"resources": config.get("resources") or {}}, want)
        case "TestValidateCustomLabels":
            _compared({"metrics": config.get("metrics") or {}}, want)
        case _:
            _compared(config, want)


def _from_text(gates: str) -> dict[str, bool]:
    pairs = (part.partition("=") for part in gates.split(",") if part)
    return {name: on == "true" for name, _, on in pairs}


def _compared(config: Json, want: Json) -> None:
    errors = _errors(config)
    if want["wantErr"] is None:
        assert {place: text for place, text in errors.items() if text is None or text.startswith(UNKNOWN)} == {}
        return
    for error in want["wantErr"]:
        path = re.sub(r"\[([^]]*)\]", r".\1", error["field"])
        assert any(_is_part(path, place) or _is_part(place, path) for place in errors), (path, errors)


def _is_part(inner: str, outer: str) -> bool:
    return f"{inner}.".startswith(f"{outer}.")


def _refused(config: Json) -> bool:
    return any(text is None or text.startswith(UNKNOWN) for text in _errors(config).values())


def _errors(config: Json) -> dict[str, str | None]:
    """By place: the answer for a key that Stowage does not have, None for a wrong value."""
    settings = {key: _switched(key, value) for key, value in config.items() if key not in _OBJECT and value != {}}
    try:
        from_map(AdmissionSettings, {"namespace": "kueue-system", **settings})
    except ValidationError as bad:
        return {
            ".".join(_camel(str(part)) for part in error["loc"]): answer_for(error["loc"])
            if error["type"] == "extra_forbidden"
            else None
            for error in bad.errors()
        }
    return {}


def _switched(key: str, value: Any) -> Any:
    return {_SWITCHES[key]: True, **value} if key in _SWITCHES and isinstance(value, dict) else value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
