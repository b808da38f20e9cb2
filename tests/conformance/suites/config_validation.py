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
from api.process.environment import from_map
from api.process.unsupported_keys import UNKNOWN, answer_for
from api.text.duration import seconds

Json = dict[str, Any]

OUTSIDE: Final = {
    "TestValidate/empty": "the managed kinds are no setting: none has to be named",
    "TestValidate/empty integrations.frameworks": "the managed kinds are no setting: none has to be named",
    "TestValidate/invalid .visibilityServer.bindPort": "port 0 selects a free one, as for all servers",
    "TestWaitForPodsReadyIsEnabled/waitforpodsready.Enabled() is false when DisableWaitForPodsReady feature gate is enabled": (
        "DisableWaitForPodsReady is no gate: waitForPodsReady.enabled is the switch"
    ),
}
_SWITCHES: Final = {"waitForPodsReady": "enabled", "fairSharing": "enable", "visibilityServer": "enabled"}
_OBJECT: Final = ("apiVersion", "kind")
_NAMESPACE: Final = {"namespace": "kueue-system"}


def run(case: Json) -> None:
    """By the Go test that the case is of."""
    if case["name"] in OUTSIDE:
        pytest.skip(OUTSIDE[case["name"]])
    given, want = case["input"], case["want"]
    config = given.get("cfg") or {}
    match case["name"].split("/")[0]:
        case "TestLoad":
            _loaded(yaml.safe_load(given["content"]), want)
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


def _loaded(config: Json, want: Json) -> None:
    """Compares the settings that both have, defaults included."""
    errors = _errors(config)
    if want["wantError"] is not None:
        assert any(text is None or text.startswith(UNKNOWN) for text in errors.values())
        return
    assert [text for text in errors.values() if text is None] == []
    known = {
        key: value for key, value in config.items() if key not in (*_OBJECT, *(place.split(".")[0] for place in errors))
    }
    made, wanted = from_map(AdmissionSettings, {**_NAMESPACE, **known}), want["wantConfiguration"]
    waits, asked = made.wait_for_pods_ready, wanted["waitForPodsReady"]
    kept, retention = (
        made.object_retention_policies.workloads,
        wanted.get("objectRetentionPolicies", {}).get("workloads", {}),
    )
    again = asked["requeuingStrategy"]
    assert made.namespace == wanted["namespace"]
    assert made.manage_jobs_without_queue_name == wanted["manageJobsWithoutQueueName"]
    assert made.managed_namespaces == wanted["managedJobsNamespaceSelector"]
    assert made.visibility_server.bind_port == wanted["visibilityServer"]["bindPort"]
    # Where nothing is said Kueue keeps finished Workloads for ever, and Stowage for a week (docs/guides/kueue.md).
    assert kept.after_finished == _seconds(retention.get("afterFinished", "168h"))
    assert kept.after_deactivated_by_kueue == _seconds(retention.get("afterDeactivatedByKueue"))
    assert (waits.timeout, waits.block_admission) == (_seconds(asked["timeout"]), asked["blockAdmission"])
    assert (waits.recovery_timeout or waits.timeout) == _seconds(asked["recoveryTimeout"])
    assert waits.requeuing_strategy.timestamp == again["timestamp"]
    assert waits.requeuing_strategy.backoff_base_seconds == again["backoffBaseSeconds"]
    assert waits.requeuing_strategy.backoff_max_seconds == again["backoffMaxSeconds"]
    assert waits.requeuing_strategy.backoff_limit_count == again.get("backoffLimitCount")


def _seconds(text: str | None) -> float | None:
    return None if text is None else seconds(text)


def _errors(config: Json) -> dict[str, str | None]:
    """By place: the answer for a key that Stowage does not have, None for a wrong value."""
    settings = {key: _switched(key, value) for key, value in config.items() if key not in _OBJECT and value != {}}
    try:
        from_map(AdmissionSettings, {**_NAMESPACE, **settings})
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
