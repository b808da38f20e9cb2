"""The kustomize tree holds together: what it names exists, and what it says agrees with the code that runs under it."""

from __future__ import annotations

import functools
import importlib.util
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.controllers.sakkara.output_record import RECORD, WRITTEN
from admission.integrations.job_kind_errors import NO_JOBS
from admission.settings import AdmissionSettings
from admission.webhook.endpoints import MUTATE_DECLARED, MUTATING, NOTICE_UNMANAGED, VALIDATE_DECLARED, VALIDATING
from admission.webhook.guards import marks
from admission.webhook.kinds.declared_rules import OPERATIONS
from api import names
from api.cel.cel import compile_cel
from api.cel.cel_authorizer import Authorizer
from api.names import ADMISSION_GATE, ELASTIC_GATE, TOPOLOGY_GATE
from api.text.manifests import read, read_one
from hack import runtime_lock
from tests.hack.rights import ALLOWED, DENIED, Right
from ungater.settings import UngaterSettings

PROJECT = Path(__file__).resolve().parents[2]
CONFIG = PROJECT / "config"
FILES = sorted(file for file in CONFIG.rglob("*.yaml") if CONFIG / "chart" not in file.parents)
"""Without the Helm chart, whose templates are no YAML (tests/e2e/test_chart.py)."""
KUSTOMIZATIONS = [file for file in FILES if file.name == "kustomization.yaml"]
Doc = dict[str, Any]


def name_of(file: Path) -> str:
    return str(file.relative_to(CONFIG))


def documents(file: Path) -> list[Any]:
    return read(file)


def built(folder: Path) -> Iterator[Doc]:
    """The objects of a kustomization and of those it names, unpatched."""
    kustomization = read_one(folder / "kustomization.yaml")
    for entry in [*kustomization.get("resources", ()), *kustomization.get("components", ())]:
        target = (folder / entry).resolve()
        yield from built(target) if target.is_dir() else documents(target)


@functools.cache
def default() -> tuple[Doc, ...]:
    """What config/default installs."""
    return tuple(built(CONFIG / "default"))


ONE_BY_ONE = {
    "jobset-prefer.yaml",
    "job-constraints.yaml",
    "job-relax.yaml",
    "flavor-spare-hosts.yaml",
    "job-spare-host.yaml",
    "job-spread.yaml",
    "simulation/nodes.yaml",
    "simulation/wide.yaml",
    "moves/fragmented.yaml",
    "job-movable.yaml",
    "job-apart.yaml",
    "job-volume.yaml",
    "elastic-quota.yaml",
    "admission-check.yaml",
    "advance-reservation.yaml",
    "pod-group.yaml",
    "gang.yaml",
    "deployment.yaml",
    "statefulset.yaml",
    "leaderworkerset.yaml",
    "job-elastic.yaml",
    "raycluster-elastic.yaml",
    "job-kind.yaml",
    "scaled-kind.yaml",
    "kubeflow.yaml",
    "mpijob.yaml",
    "raycluster.yaml",
    "rayjob.yaml",
    "trainjob.yaml",
    "appwrapper.yaml",
    "sparkapplication.yaml",
    "by-pods.yaml",
    "queue-backfill.yaml",
    "queue-by-usage.yaml",
    "sakkara-topology.yaml",
    "sakkara-group.yaml",
    "topology-defragment.yaml",
}
"""Samples that are applied by themselves."""


def of_kind(kind: str, objects: Iterable[Doc] | None = None) -> dict[str, Doc]:
    """By name, of what config/default installs or of these."""
    return {obj["metadata"]["name"]: obj for obj in objects or default() if obj["kind"] == kind}


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_file_parses(file: Path) -> None:
    assert documents(file)


@pytest.mark.parametrize("file", KUSTOMIZATIONS, ids=name_of)
def test_what_a_kustomization_names_exists_and_nothing_lies_about(file: Path) -> None:
    content, folder = read_one(file), file.parent
    patches = [patch["path"] for patch in content.get("patches", ())]
    generated = [entry.split("=")[1] for one in content.get("configMapGenerator", ()) for entry in one["files"]]
    named = [*content.get("resources", ()), *content.get("components", ()), *patches, *generated]
    for entry in named:
        target = folder / entry
        assert (target / "kustomization.yaml").is_file() if target.is_dir() else target.is_file(), entry
    lying = {path.relative_to(folder).as_posix() for path in folder.rglob("*.yaml")} - {*named, "kustomization.yaml"}
    assert lying <= ONE_BY_ONE, "a file that no kustomization names"


def test_no_object_is_given_twice() -> None:
    keys = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in default()]
    assert len(keys) == len(set(keys))


# ---- webhooks


def hooks(verb: str) -> list[Doc]:
    kind = f"{verb.capitalize()}WebhookConfiguration"
    found: list[Doc] = of_kind(kind)[f"stowage-{verb}-webhook-configuration"]["webhooks"]
    return found


@pytest.mark.parametrize(("verb", "endpoints"), [("mutating", MUTATING), ("validating", VALIDATING)])
def test_every_endpoint_of_the_process_is_called_for_its_kind(verb: str, endpoints: Any) -> None:
    declared = {"mutating": MUTATE_DECLARED, "validating": VALIDATE_DECLARED}[verb]
    called = {hook["clientConfig"]["service"]["path"]: hook.get("rules", [None])[0] for hook in hooks(verb)}
    assert called.pop(declared, "none") is None, "the webhooks of kinds that JobKinds declare come last, without rules"
    if verb == "validating":
        assert called.pop(NOTICE_UNMANAGED)["apiGroups"] == ["*"], "custom resources of any group"
    assert called.keys() == endpoints.keys()
    for path, rule in called.items():
        resource = endpoints[path].resource
        assert (rule["apiGroups"], rule["apiVersions"]) == ([resource.group], [resource.version])
        assert rule["resources"][0] == resource.plural


OWN_GROUPS = ("kueue.x-k8s.io", "scheduling.x-k8s.io", "scheduling.sigs.k8s.io", "stowage.dev")


@pytest.mark.parametrize("verb", ["mutating", "validating"])
def test_strangers_never_depend_on_us(verb: str) -> None:
    for hook in hooks(verb):
        rules = hook.get("rules", [])
        if hook["name"] == "vunmanaged.stowage.dev":  # asked about any kind, and only for what it says
            assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 2)
        else:
            assert "*" not in str(rules)
            assert hook["failurePolicy"] == "Fail"
        assert not any({"DELETE", "CONNECT"} & {*rule["operations"]} for rule in rules)
        rule = rules[0] if rules else {"apiGroups": [""], "resources": []}
        if rule["apiGroups"][0] not in OWN_GROUPS:
            named = {each["key"]: each["operator"] for each in hook["objectSelector"]["matchExpressions"]}
            ours = "sakkara.group" if rule["resources"] == ["configmaps"] else "kueue.x-k8s.io/queue-name"
            assert named.keys() <= {ours, "kueue.x-k8s.io/podset"}, hook["name"]
            selector = {(e["key"], e["operator"]): e["values"] for e in hook["namespaceSelector"]["matchExpressions"]}
            assert selector["kubernetes.io/metadata.name", "NotIn"] == ["kube-system", "stowage-system"]
            everywhere = ("kueue.x-k8s.io/managed-namespace", "In") not in selector
            if everywhere and "Exists" not in named.values():
                told = " ".join(condition["name"] for condition in hook["matchConditions"])
                assert re.search("names-a-gang|names-a-workload|is-part-of", told), "only what names something of ours"


def test_updates_of_pods_with_any_of_our_gates_or_marks_are_reviewed() -> None:
    """By label where there is one; else the API server looks for each gate and annotation by its name."""
    (hook,) = (hook for hook in hooks("validating") if hook["name"] == "vpod-marked.stowage.dev")
    (told,) = (each["expression"] for each in hook["matchConditions"] if each["name"].startswith("names-a-workload"))
    assert set(re.findall(r"'(kueue[^']*)'", told)) == {*marks.GATES, *marks.IDENTITY}


MANAGED_POD = {"labels": {names.MANAGED_LABEL: "true"}}
POD_OF_A_SET = {"annotations": {names.POD_SUSPENDING_PARENT: "statefulset"}}


@pytest.mark.parametrize("name", ["vpod", "vpod-of-a-job", "vpod-marked"])
@pytest.mark.parametrize(
    ("metadata", "key", "reviewed"),
    [
        pytest.param({}, "example.com/address", False, id="others-annotation"),
        pytest.param(MANAGED_POD, "example.com/address", True, id="of-a-managed-pod"),
        pytest.param(POD_OF_A_SET, "example.com/address", True, id="of-a-sets-pod"),
        pytest.param({}, names.POD_SUSPENDING_PARENT, True, id="becomes-a-sets-pod"),
        *(pytest.param({}, key, True, id=key.rpartition("/")[2]) for key in marks.IDENTITY),
    ],
)
def test_annotations_of_others_on_pods_of_jobs_need_no_webhook(
    name: str, metadata: Doc, key: str, reviewed: bool
) -> None:
    """A network or a kubelet writes its own: what was admitted runs and ends without the webhook."""
    (hook,) = (hook for hook in hooks("validating") if hook["name"] == f"{name}.stowage.dev")
    (told,) = (each["expression"] for each in hook["matchConditions"] if each["name"] == "changes-what-we-judge")
    old: Doc = {"metadata": {"name": "p", **metadata}, "spec": {}}
    new = {**old, "metadata": {**old["metadata"], "annotations": {**metadata.get("annotations", {}), key: ""}}}
    condition = compile_cel(told)
    assert condition({"object": new, "oldObject": old}) is reviewed
    assert condition({"object": old, "oldObject": new}) is reviewed
    assert condition({"object": new, "oldObject": new}) is False


def _may(user: str) -> Authorizer:
    """The controllers of JobSets and TrainJobs may write the status of these; nobody else has a right."""
    controllers = {"jobset": ("jobset.x-k8s.io", "jobsets"), "trainer": ("trainer.kubeflow.org", "trainjobs")}

    def may(asked: Mapping[str, str]) -> bool:
        assert (asked["subresource"], asked["namespace"], asked["check"]) == ("status", "ns", "update")
        return controllers.get(user) == (asked["group"], asked["resource"])

    return Authorizer(may)


def a_part(owner: str, version: str, **spec: Any) -> Doc:
    reference = {"apiVersion": version, "kind": owner, "name": "o", "uid": "u", "controller": True}
    template = {"metadata": {"labels": {names.PODSET_LABEL: "w"}}, "spec": {}}
    return {"metadata": {"name": "p", "ownerReferences": [reference]}, "spec": {"template": template, **spec}}


OF_JOBSET, OF_TRAIN_JOB = ("JobSet", "jobset.x-k8s.io/v1alpha2"), ("TrainJob", "trainer.kubeflow.org/v1alpha1")
JOB_PART, OTHER_PARTS = "vjob-part", ("vjobset-part", "vkind-part", "vdeclared-part")


@pytest.mark.parametrize(
    ("name", "owner", "user", "suspended", "reviewed"),
    [
        pytest.param(JOB_PART, OF_JOBSET, "tenant", False, True, id="a-tenant-starts-a-jobsets-job"),
        pytest.param(JOB_PART, OF_JOBSET, "tenant", True, True, id="a-tenant-stops-a-jobsets-job"),
        pytest.param(JOB_PART, OF_JOBSET, "jobset", False, False, id="the-controller-starts-a-jobsets-job"),
        pytest.param(JOB_PART, OF_JOBSET, "jobset", True, False, id="the-controller-stops-a-jobsets-job"),
        pytest.param(JOB_PART, OF_TRAIN_JOB, "jobset", True, True, id="the-controller-of-others"),
        *(
            pytest.param(each, OF_TRAIN_JOB, user, suspended, reviewed, id=f"{each}-{user}-{suspended}")
            for each in (JOB_PART, *OTHER_PARTS)
            for user, suspended, reviewed in (
                ("tenant", True, True),
                ("trainer", False, True),
                ("trainer", True, False),
            )
        ),
    ],
)
def test_controllers_stop_parts_and_those_of_jobsets_start_them_without_the_webhook(
    name: str, owner: tuple[str, str], user: str, suspended: bool, reviewed: bool
) -> None:
    """What starts else may carry marks that a user wrote into the owner, which only the webhook sees."""
    (hook,) = (hook for hook in hooks("validating") if hook["name"] == f"{name}.stowage.dev")
    old, new = a_part(*owner, suspend=not suspended), a_part(*owner, suspend=suspended)
    request = {"operation": "UPDATE", "namespace": "ns", "userInfo": {"username": user}}
    scope = {"object": new, "oldObject": old, "request": request, "authorizer": _may(user)}
    assert all(compile_cel(each["expression"])(scope) for each in hook["matchConditions"]) is reviewed


@pytest.mark.parametrize(("user", "reviewed"), [("tenant", True), ("jobset", False)])
def test_the_controller_of_jobsets_makes_their_jobs_without_the_webhook(user: str, reviewed: bool) -> None:
    (hook,) = (hook for hook in hooks("mutating") if hook["name"] == "mjob-marked.stowage.dev")
    new = a_part(*OF_JOBSET)
    new["spec"]["template"]["metadata"]["annotations"] = {names.WORKLOAD_ANNOTATION: "w"}
    scope = {"object": new, "oldObject": None, "request": {"namespace": "ns"}, "authorizer": _may(user)}
    assert all(compile_cel(each["expression"])(scope) for each in hook["matchConditions"]) is reviewed


@pytest.mark.parametrize("verb", ["mutating", "validating"])
@pytest.mark.parametrize(
    "metadata", [{"labels": {names.PODSET_LABEL: "w"}}, {"annotations": {names.WORKLOAD_ANNOTATION: "w"}}]
)
def test_marks_in_a_template_of_a_jobset_without_a_queue_are_reviewed(verb: str, metadata: Doc) -> None:
    """So that what its controller copies into its Jobs was looked at."""
    (hook,) = (hook for hook in hooks(verb) if hook["name"] == f"{verb[0]}jobset-marked.stowage.dev")

    def reviewed(*templates: Doc) -> bool:
        jobs = [{"name": "j", "template": {"spec": {"template": each}}} for each in templates]
        jobset = {"metadata": {"name": "s"}, "spec": {"replicatedJobs": jobs}}
        scope = {"object": jobset, "oldObject": None, "request": {"operation": "CREATE", "userInfo": {"username": "u"}}}
        return all(compile_cel(each["expression"])(scope) for each in hook["matchConditions"])

    assert reviewed({"spec": {}}, {"metadata": metadata, "spec": {}})
    assert not reviewed({"spec": {}}, {"metadata": {"labels": {"app": "x"}}, "spec": {}})
    assert not reviewed()


def test_names_of_webhooks_are_unique() -> None:
    names = [hook["name"] for verb in ("mutating", "validating") for hook in hooks(verb)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("verb", ["mutating", "validating"])
def test_development_calls_the_same_paths_by_url(verb: str) -> None:
    patch = read_one(CONFIG / "development" / f"{verb}.yaml")
    assert [op["path"] for op in patch] == [f"/webhooks/{i}/clientConfig" for i in range(len(hooks(verb)))]
    for op, hook in zip(patch, hooks(verb), strict=True):
        assert op["value"]["url"].endswith(f":9443{hook['clientConfig']['service']['path']}")


# ---- rights


def granted(right: Right) -> bool:
    """Whether the roles bound to the account hold the right, as the authorizer reads them."""
    return any(_covers(rule, right) for rule in _rules(right))


def _rules(right: Right) -> Iterator[Doc]:
    for binding in default():
        namespace = binding["metadata"].get("namespace")
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding") or (namespace and namespace != right.namespace):
            continue
        if right.account in [subject["name"] for subject in binding["subjects"]]:
            yield from of_kind(binding["roleRef"]["kind"])[binding["roleRef"]["name"]].get("rules", ())


def _covers(rule: Doc, right: Right) -> bool:
    names = rule.get("resourceNames")
    told = right.group in rule["apiGroups"] and right.resource in rule["resources"] and right.verb in rule["verbs"]
    return told and (names is None or right.name in names)


@pytest.mark.parametrize("right", ALLOWED, ids=str)
def test_a_process_may(right: Right) -> None:
    assert granted(right)


@pytest.mark.parametrize("right", DENIED, ids=str)
def test_a_process_may_not(right: Right) -> None:
    assert not granted(right)


def test_no_role_may_do_everything() -> None:
    for role in [*of_kind("ClusterRole").values(), *of_kind("Role").values()]:
        for rule in role.get("rules", ()):
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]], role["metadata"]["name"]


# ---- processes


DEPLOYMENTS = of_kind("Deployment")


def pod_of(name: str) -> Doc:
    spec: Doc = DEPLOYMENTS[name]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_process_is_guarded(name: str) -> None:
    pod = pod_of(name)
    (container,) = pod["containers"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert container["resources"].keys() == {"requests", "limits"}
    assert (container["livenessProbe"]["httpGet"]["path"], container["readinessProbe"]["httpGet"]["path"]) == (
        "/healthz",
        "/readyz",
    )
    assert DEPLOYMENTS[name]["spec"]["replicas"] == 2
    assert of_kind("PodDisruptionBudget")[name]["spec"]["selector"] == DEPLOYMENTS[name]["spec"]["selector"]
    assert pod["serviceAccountName"] in of_kind("ServiceAccount")


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_process_runs_a_module_with_settings_that_it_knows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = pod_of(name)
    (container,) = pod["containers"]
    assert container["command"] == ["python", "-m"]
    module, *words = container["args"]
    assert importlib.util.find_spec(f"{module}.__main__")
    assert words == [] if module == "ungater" else words == [name.removeprefix("stowage-")]
    mounted = Path(next(one["value"] for one in container["env"] if one["name"] == "STOWAGE_CONFIG"))
    monkeypatch.setenv("STOWAGE_CONFIG", str(CONFIG / "manager" / "settings" / mounted.name))
    settings = UngaterSettings() if module == "ungater" else AdmissionSettings()
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["http"] == settings.health_port
    grace = settings.process_settings("any").grace + (5 if "lifecycle" in container else 0)
    assert pod["terminationGracePeriodSeconds"] > grace


def test_the_webhook_finds_its_things_under_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOWAGE_CONFIG", raising=False)
    settings = AdmissionSettings()
    webhook = settings.webhook
    service = of_kind("Service")[webhook.service]
    (container,) = pod_of("stowage-webhook")["containers"]
    assert service["metadata"]["namespace"] == settings.namespace
    assert {"name": service["spec"]["ports"][0]["targetPort"], "containerPort": webhook.port} in container["ports"]
    assert webhook.secret in of_kind("Secret")
    assert webhook.mutating_configuration in of_kind("MutatingWebhookConfiguration")
    assert webhook.validating_configuration in of_kind("ValidatingWebhookConfiguration")


def test_certmanager_gives_the_process_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    (patch,) = documents(CONFIG / "certmanager" / "deployment.yaml")
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    monkeypatch.delenv("STOWAGE_CONFIG", raising=False)
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    webhook = AdmissionSettings().webhook
    assert webhook.certificates == "Files"
    assert str(webhook.certificate_dir) == container["volumeMounts"][0]["mountPath"]
    (certificate,) = (d for d in documents(CONFIG / "certmanager" / "certificate.yaml") if d["kind"] == "Certificate")
    assert certificate["spec"]["secretName"] == patch["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"]
    assert f"{webhook.service}.{AdmissionSettings().namespace}.svc" in certificate["spec"]["dnsNames"]


# ---- the image


def test_dockerfile_copies_what_there_is() -> None:
    lines = [line.split() for line in (PROJECT / "Dockerfile").read_text().splitlines()]
    copied = [words[1:-1] for words in lines if words[:1] == ["COPY"] and not words[1].startswith("--from")]
    missing = [path for paths in copied for path in paths if not (PROJECT / path).exists()]
    assert not missing
    packages = {path.parent.name for path in PROJECT.glob("*/__init__.py")} - {"hack", "tests"}
    manifests = {"config"}
    assert packages | manifests <= {path for paths in copied for path in paths}


def test_make_image_builds_what_the_deployments_run() -> None:
    manager = read_one(CONFIG / "manager" / "kustomization.yaml")
    (image,) = manager["images"]
    run = f"{image.get('newName', image['name'])}:{image['newTag']}"
    shown = subprocess.run(
        ["make", "--no-print-directory", "-n", "image"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout
    assert shown.split() == ["docker", "build", "-t", run, "."]


def test_runtime_lock_is_a_part_of_the_lock_without_test_tools() -> None:
    with (PROJECT / "requirements.lock").open() as lock:
        pinned = dict(runtime_lock.entries(lock))
    needed = runtime_lock.closure("stowage")
    assert {"aiohttp", "pydantic", "pydantic-core", "numpy", "uvloop", "mcp"} <= needed
    assert not {"pytest", "mypy", "ruff", "hypothesis", "hatchling"} & needed
    assert needed <= pinned.keys()
    assert all("--hash=sha256:" in pinned[name] for name in needed)


def test_the_policy_names_the_keys_that_the_controller_writes() -> None:
    policy = of_kind("ValidatingAdmissionPolicy")["stowage-configmaps"]["spec"]
    (results,) = (v["expression"] for v in policy["variables"] if v["name"] == "results")
    assert set(yaml.safe_load(results)) == set(WRITTEN)
    assert any(f"'{RECORD}'" in rule["expression"] for rule in policy["validations"])


def test_the_policies_name_the_keys_and_groups_of_the_code() -> None:
    """A name that the code gains and a policy lacks is refused at the API server."""
    policies = of_kind("ValidatingAdmissionPolicy")
    pods = {one["name"]: one["expression"] for one in policies["stowage-pods"]["spec"]["variables"]}
    prefixes = tuple(yaml.safe_load(pods["prefixes"]))
    written = {
        *(names.PODSET_LABEL, names.WORKLOAD_ANNOTATION, names.WORKLOAD_SLICE_NAME, names.TOPOLOGY_WORKLOAD),
        *(names.TOPOLOGY_PODSET, names.LOCAL_QUEUE_LABEL, names.CLUSTER_QUEUE_LABEL, names.OPENED_LABEL),
        *(names.SAKKARA_RANK, names.SAKKARA_STATUS, names.SAKKARA_RETRIES, names.SAKKARA_GROUP_NAME),
    }
    assert all(key.startswith(prefixes) for key in written)
    assert all(f"'{gate}'" in pods["opened"] for gate in (ADMISSION_GATE, TOPOLOGY_GATE, ELASTIC_GATE))
    for name in ("stowage-pod-statuses", "stowage-pod-deletions"):
        told = {one["name"]: one["expression"] for one in policies[name]["spec"]["variables"]}
        assert told["prefixes"] == pods["prefixes"]
    hooks = {one["name"]: one["expression"] for one in policies["stowage-webhook-configurations"]["spec"]["variables"]}
    assert set(yaml.safe_load(hooks["groups"])) == {"", "apps", "batch", *NO_JOBS}
    assert set(yaml.safe_load(hooks["declared"])) == set(OPERATIONS)


def test_no_aggregated_role_has_rules_of_its_own() -> None:
    """The API server writes them, so that applying the manifest again would be a conflict."""
    aggregated = [role for role in of_kind("ClusterRole").values() if "aggregationRule" in role]
    assert aggregated
    assert not [role["metadata"]["name"] for role in aggregated if "rules" in role]
