"""Settings: those that cannot be are told in a line, and the process does not start; the others as they are used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pydantic import ValidationError

from admission.__main__ import main
from admission.controllers.options import job_options, lifecycle_rules
from admission.controllers.state.lifecycle import LifecycleRules
from admission.controllers.state.timeouts import PodsReadyRules, RequeueBackoff
from admission.engine.queue.past_usage import UsageRules
from admission.engine.quota.fairness import FairSharingRules, FairStrategy
from admission.integrations.owners import managed_kinds
from admission.settings import AdmissionSettings
from admission.webhook.rules.review_rules import webhook_rules
from api.kube.resources import NOT_MANAGED
from api.pod.pods import Namespace
from api.process.environment import faults
from api.process.unsupported_keys import INSTEAD, MANAGED_FRAMEWORKS
from ungater.app import main as ungater


@pytest.mark.parametrize("process", ["controller", "webhook"])
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        pytest.param(
            "PLACEMENT__EXACT_BUDGET", "0",
            "settings: placement.exact_budget: '0': Input should be greater than or equal to 1", id="budget-0",
        ),
        pytest.param(
            "PLACEMENT__PROFILE", "Best",
            "settings: placement.profile: 'Best': Input should be 'Exact', 'Compatible' or 'LeastFree'", id="profile",
        ),
        pytest.param(
            "FAIR_SHARING__PREEMPTION_STRATEGIES", '["LessThanInitialShare", "LessThanOrEqualToFinalShare"]',
            "settings: fair_sharing.preemption_strategies: ['LessThanInitialShare', 'LessThanOrEqualToFinalShare']: "
            "Value error, must be one of LessThanOrEqualToFinalShare, LessThanInitialShare, or both in that order",
            id="strategies-turned-round",
        ),
        pytest.param(
            "WAIT_FOR_PODS_READY__TIMEOUT", "soon",
            "settings: wait_for_pods_ready.timeout: 'soon': "
            "Value error, 'soon': must be a duration such as 90s, 10m or 1h30m", id="timeout-no-duration",
        ),
        pytest.param(
            "WAIT_FOR_PODS_READY__RECOVERY_TIMEOUT", "-1",
            "settings: wait_for_pods_ready.recovery_timeout: '-1': Input should be greater than or equal to 0",
            id="recovery-negative",
        ),
        pytest.param(
            "WAIT_FOR_PODS_READY__TIMEOUT", "inf",
            "settings: wait_for_pods_ready.timeout: 'inf': Input should be less than or equal to 315360000",
            id="timeout-endless",
        ),
        pytest.param(
            "WAIT_FOR_PODS_READY__REQUEUING_STRATEGY__BACKOFF_BASE_SECONDS", "0",
            "settings: wait_for_pods_ready.requeuing_strategy.backoff_base_seconds: '0': "
            "Input should be greater than or equal to 1", id="backoff-0",
        ),
        pytest.param(
            "WAIT_FOR_PODS_READY__REQUEUING_STRATEGY__TIMESTAMP", "Admission",
            "settings: wait_for_pods_ready.requeuing_strategy.timestamp: 'Admission': "
            "Input should be 'Eviction' or 'Creation'", id="timestamp",
        ),
        pytest.param(
            "WAIT_FOR_PODS_READY", '{"patience": 5}',
            "settings: wait_for_pods_ready.patience: 5: no such setting", id="unknown-word",
        ),
        pytest.param(
            "METRICS__CUSTOM_LABELS", '[{"name": "team"}]',
            "settings: metrics.custom_labels: '[{\"name\": \"team\"}]': "
            f"{INSTEAD['metrics.customLabels']}", id="Kueue's, not ours",
        ),
        pytest.param(
            "WAIT_FOR_PODS_READY__BLOCK_ADMISSION", "true",
            "settings: wait_for_pods_ready: {'block_admission': 'true'}: Value error, blockAdmission has no effect without "
            "enabled: say enabled: true, or false to leave it off", id="off-by-default",
        ),
        pytest.param(
            "FAIR_SHARING__PREEMPTION_STRATEGIES", '["LessThanInitialShare"]',
            "settings: fair_sharing: {'preemption_strategies': ['LessThanInitialShare']}: Value error, preemptionStrategies "
            "has no effect without enable: say enable: true, or false to leave it off", id="sharing-off-by-default",
        ),
        pytest.param(
            "ADMISSION_FAIR_SHARING__USAGE_SAMPLING_INTERVAL", "5m",
            "settings: admission_fair_sharing: {'usage_sampling_interval': '5m'}: Value error, usageSamplingInterval "
            "has no effect without usageHalfLifeTime", id="past-usage-without-half-life",
        ),
        pytest.param(
            "ADMISSION_FAIR_SHARING__USAGE_HALF_LIFE_TIME", "-1h",
            "settings: admission_fair_sharing.usage_half_life_time: '-1h': "
            "Value error, '-1h': must be a duration such as 90s, 10m or 1h30m", id="past-usage-negative-half-life",
        ),
        pytest.param(
            "OBJECT_RETENTION_POLICIES__WORKLOADS__AFTER_FINISHED", "a week",
            "settings: object_retention_policies.workloads.after_finished: 'a week': "
            "Value error, 'a week': must be a duration such as 90s, 10m or 1h30m", id="retention-no-duration",
        ),
        pytest.param(
            "MANAGED_JOBS_NAMESPACE_SELECTOR", '{"matchExpressions": [{"key": "team", "operator": "In"}]}',
            "settings: managed_jobs_namespace_selector.matchExpressions.0: {'key': 'team', 'operator': 'In'}: "
            "Value error, In and NotIn need values, Exists and DoesNotExist have none", id="selector-without-values",
        ),
    ],
)  # fmt: skip
def test_bad_settings(
    process: str,
    name: str,
    value: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(f"STOWAGE_{name}", value)
    assert main([process]) == 2
    assert capsys.readouterr().err == f"{message}\n"


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(lambda: main(["controller"]), id="controller"),
        pytest.param(lambda: main(["webhook"]), id="webhook"),
        pytest.param(ungater, id="ungater"),
    ],
)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(None, "no such file", id="missing"),
        pytest.param("a: [", "must be a YAML map: while parsing", id="no-yaml"),
        pytest.param("- a\n- b\n", "must be a YAML map: ", id="a-list"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_that_names_it(
    start: Callable[[], int],
    text: str | None,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "settings.yaml"
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("STOWAGE_CONFIG", str(file))
    assert start() == 2
    assert capsys.readouterr().err.startswith(f"settings: STOWAGE_CONFIG: {str(file)!r}: {message}")


def test_the_answer_to_kueue_s_frameworks_names_every_kind_that_is_managed() -> None:
    kinds = {name.rpartition("/")[2] for name in MANAGED_FRAMEWORKS.split(", ")}
    assert kinds == {kind.lower() for kind in managed_kinds()}
    assert all(name in INSTEAD["integrations.frameworks"] for name in NOT_MANAGED)


@pytest.mark.parametrize("path", sorted(INSTEAD))
def test_nothing_of_the_field_s_configuration_is_taken_and_ignored(
    path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given: object = 1
    for part in reversed(path.split(".")):
        given = {part: given}
    (tmp_path / "config.yaml").write_text(msgspec.json.encode(given).decode())
    monkeypatch.setenv("STOWAGE_CONFIG", str(tmp_path / "config.yaml"))
    assert main(["controller"]) == 2
    file = tmp_path / "config.yaml"
    assert capsys.readouterr().err == f"settings: {path}: 1: {INSTEAD[path]} (in {file})\n"


def test_a_gate_that_is_not_here_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("featureGates: {VisibilityOnDemand: true}")
    monkeypatch.setenv("STOWAGE_CONFIG", str(tmp_path / "config.yaml"))
    with pytest.raises(ValidationError) as bad:
        AdmissionSettings()
    assert "Stowage does not have this gate: what Kueue has on by default is always on" in faults(bad.value)


def test_kueue_s_feature_gates_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Webhook, view of the cluster and job controllers go by one value."""
    gates = "TopologyAwareScheduling: false, ElasticJobsViaWorkloadSlices: false, PriorityBoost: true"
    (tmp_path / "config.yaml").write_text(f"featureGates: {{{gates}}}")
    monkeypatch.setenv("STOWAGE_CONFIG", str(tmp_path / "config.yaml"))
    settings = AdmissionSettings()
    assert webhook_rules(settings).gates is settings.feature_gates
    options = job_options(settings, {})
    assert (options.topology, options.resizes) == (False, False)
    monkeypatch.setenv("STOWAGE_FEATURE_GATES__PRIORITY_BOOST", "false")
    assert not AdmissionSettings().feature_gates.priority_boost, "a variable wins over the file"


@pytest.mark.parametrize(
    ("start", "key"),
    [
        pytest.param(lambda: main(["controller"]), "ungater", id="controller"),
        pytest.param(ungater, "placement", id="ungater"),
    ],
)
def test_a_section_of_another_process_is_an_error_that_says_so(
    start: Callable[[], int],
    key: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "config.yaml").write_text(f"{key}: {{}}")
    monkeypatch.setenv("STOWAGE_CONFIG", str(tmp_path / "config.yaml"))
    assert start() == 2
    assert "the ungater and the other two processes have a file each" in capsys.readouterr().err


def test_the_field_s_words_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(
        """
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector: {matchLabels: {team: a}}
waitForPodsReady:
  enabled: true
  timeout: 5m
  recoveryTimeout: 90
  requeuingStrategy: {timestamp: Creation, backoffBaseSeconds: 10, backoffLimitCount: 3, backoffMaxSeconds: 100}
objectRetentionPolicies: {workloads: {afterFinished: 1h, afterDeactivatedByKueue: 0s}}
controller: {reclaimablePods: false, shortWorkloadNames: true, assignQueueLabels: false}
"""
    )
    monkeypatch.setenv("STOWAGE_CONFIG", str(file))
    settings = AdmissionSettings()
    rules = lifecycle_rules(settings)
    assert rules.pods_ready == PodsReadyRules(300, 90, RequeueBackoff(10, 100, 3))
    assert rules.finished_kept == 3600
    options = job_options(settings, {})
    assert (options.manage_jobs_without_queue_name, options.deactivated_kept) == (True, 0)
    assert (options.reclaimable_pods, options.short_names, options.assign_queue_labels) == (False, True, False)
    assert options.wait_for_pods_ready


def test_finished_workloads_of_owners_that_are_gone_do_not_pile_up() -> None:
    """A week, unless the settings say otherwise (docs/operations.md)."""
    assert lifecycle_rules(AdmissionSettings()).finished_kept == 7 * 24 * 3600


def namespace(name: str, **labels: str) -> Namespace:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Namespace)


def test_without_settings_no_workload_waits_for_pods_and_two_namespaces_are_unmanaged() -> None:
    settings = AdmissionSettings()
    assert lifecycle_rules(settings) == LifecycleRules(finished_kept=7 * 24 * 3600)
    known = {name: namespace(name) for name in ("kube-system", "stowage-system", "team-a")}
    options = job_options(settings, known)
    assert [name for name in (*known, "just-made") if options.namespace_managed(name)] == ["team-a", "just-made"]
    assert options.reclaimable_pods


def test_namespaces_are_managed_by_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWAGE_MANAGED_JOBS_NAMESPACE_SELECTOR", '{"matchLabels": {"team": "a"}}')
    known = {"one": namespace("one", team="a"), "two": namespace("two", team="b")}
    options = job_options(AdmissionSettings(), known)
    assert [name for name in ("one", "two", "three") if options.namespace_managed(name)] == ["one"]
    known["two"] = namespace("two", team="a")
    assert options.namespace_managed("two")


@pytest.mark.parametrize(
    ("words", "rules"),
    [
        pytest.param("{}", None, id="off"),
        pytest.param("{enable: true}", FairSharingRules(), id="on"),
        pytest.param(
            "{enable: true, preemptionStrategies: [LessThanInitialShare]}",
            FairSharingRules((FairStrategy.INITIAL_SHARE,)),
            id="one strategy",
        ),
    ],
)
def test_fair_sharing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, rules: FairSharingRules | None
) -> None:
    (tmp_path / "config.yaml").write_text(f"fairSharing: {words}")
    monkeypatch.setenv("STOWAGE_CONFIG", str(tmp_path / "config.yaml"))
    assert AdmissionSettings().fair_sharing.rules() == rules


@pytest.mark.parametrize(
    ("words", "rules"),
    [
        pytest.param("{}", None, id="off"),
        pytest.param("{usageHalfLifeTime: 168h}", UsageRules(604_800.0, 300.0), id="half-life"),
        pytest.param("{usageHalfLifeTime: 0}", UsageRules(0.0, 300.0), id="half-life-0"),
        pytest.param(
            "{usageHalfLifeTime: 1h, usageSamplingInterval: 1m, resourceWeights: {cpu: 0, nvidia.com/gpu: 2.5}}",
            UsageRules(3600.0, 60.0, {"cpu": 0.0, "nvidia.com/gpu": 2.5}),
            id="all",
        ),
    ],
)
def test_admission_fair_sharing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, rules: UsageRules | None
) -> None:
    (tmp_path / "config.yaml").write_text(f"admissionFairSharing: {words}")
    monkeypatch.setenv("STOWAGE_CONFIG", str(tmp_path / "config.yaml"))
    assert AdmissionSettings().admission_fair_sharing.rules() == rules


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("{usageHalfLifeTime: 1h, usageSamplingInterval: 0s}", id="interval-0"),
        pytest.param("{usageHalfLifeTime: 1h, resourceWeights: {cpu: -1}}", id="weight-below-0"),
        pytest.param("{usageHalfLifeTime: 1h, resourceWeights: {cpu: .nan}}", id="weight-nan"),
        pytest.param("{usageHalfLifeTime: 1h, resourceWeights: {cpu: heavy}}", id="weight-text"),
        pytest.param("{usageHalfLifeTime: 1h, resetInactivityPeriod: 1h}", id="unknown"),
    ],
)
def test_admission_fair_sharing_that_cannot_be_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str
) -> None:
    (tmp_path / "config.yaml").write_text(f"admissionFairSharing: {words}")
    monkeypatch.setenv("STOWAGE_CONFIG", str(tmp_path / "config.yaml"))
    with pytest.raises(ValidationError):
        AdmissionSettings()


@pytest.mark.parametrize("port", ["99999", "-1"])
def test_a_port_that_cannot_be_is_refused_with_the_variable(port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWAGE_HEALTH_PORT", port)
    with pytest.raises(ValidationError) as bad:
        AdmissionSettings()
    assert faults(bad.value).startswith(f"settings: health_port: {port!r}: Input should be")


def test_the_file_that_holds_a_bad_value_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("healthPort: 99999")
    monkeypatch.setenv("STOWAGE_CONFIG", str(path))
    with pytest.raises(ValidationError) as bad:
        AdmissionSettings()
    assert "99999" in faults(bad.value)
    assert faults(bad.value).endswith(f"(in {path})")
