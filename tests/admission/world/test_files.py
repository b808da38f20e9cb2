"""Worlds from manifests: what is taken, when it comes, and how what is not taken is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from admission.engine.decision import Admit, Wait
from admission.world.documents import Unreadable, documents
from admission.world.files import from_files
from api import names
from tests.admission.world.world_documents import (
    HOST,
    RACK,
    Manifest,
    flat,
    job,
    manifest,
    node,
    queue,
    tree,
    world,
    written,
)

SAMPLES = Path(__file__).resolve().parents[3] / "config" / "samples"
T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def admitted(obj: Any) -> dict[str, dict[str, int]]:
    """Pods by domain of each job that one cycle admits."""
    found = {}
    for decision in obj.cycle().decisions:
        if isinstance(decision, Admit):
            counts: dict[str, int] = {}
            for got in decision.admission.pod_sets:
                for domain in got.assignment.domains if got.assignment else ():
                    counts["/".join(domain.values)] = counts.get("/".join(domain.values), 0) + domain.count
            found[obj.title(decision.workload).rpartition("/")[2]] = counts
    return found


def test_the_samples_of_the_project_with_nodes_for_them(tmp_path: Path) -> None:
    label = "cloud-provider.com"
    nodes = [
        manifest(
            "Node",
            f"n{number}",
            metadata={
                "labels": {
                    f"{label}/node-group": "tas",
                    f"{label}/topology-block": "b",
                    f"{label}/topology-rack": f"r{number // 2}",
                }
            },
            status={"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
        )
        for number in range(4)
    ]
    used = [SAMPLES / name for name in ("flavor-levels.yaml", "queue.yaml", "job-require.yaml", "jobset-prefer.yaml")]
    made = from_files([*used, written(tmp_path / "nodes.yaml", nodes)])
    assert not made.faults
    assert admitted(made) == {"require-rack": {"b/r0": 10}, "prefer-block": {"b/r0": 1, "b/r1": 8}}


def dumped(kind: str, objects: list[Manifest]) -> bytes:
    """As `kubectl get` prints a list of one kind: JSON, the kind on the list alone."""
    version = objects[0]["apiVersion"]
    bare = [{key: value for key, value in obj.items() if key not in ("apiVersion", "kind")} for obj in objects]
    return msgspec.json.encode({"apiVersion": version, "kind": f"{kind}List", "items": bare})


def as_documents(value: list[Manifest]) -> bytes:
    return yaml.safe_dump_all(value).encode()


def as_list(value: list[Manifest]) -> bytes:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": value}).encode()


def as_json(value: list[Manifest]) -> bytes:
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": value})


@pytest.mark.parametrize("form", [as_documents, as_list, as_json])
def test_every_form_of_file_gives_the_same_world(tmp_path: Path, form: Any) -> None:
    given = [*tree(), *queue(), job("a", 8, require=RACK)]
    path = tmp_path / "world"
    path.write_bytes(form(given))
    assert admitted(from_files([path])) == {"a": {"r0-h0": 4, "r0-h1": 4}}


def test_typed_lists_leave_the_kind_of_their_items_out(tmp_path: Path) -> None:
    nodes = [obj for obj in tree() if obj["kind"] == "Node"]
    rest = [obj for obj in tree() if obj["kind"] != "Node"]
    (tmp_path / "nodes.json").write_bytes(dumped("Node", nodes))
    written(tmp_path / "rest.yaml", rest, queue(), job("a", 2))
    assert admitted(from_files([tmp_path])) == {"a": {"r0-h0": 2}}


def test_a_time_without_quotes_is_a_time(tmp_path: Path) -> None:
    path = written(tmp_path / "world.yaml", tree(), queue(), job("a"))
    path.write_text(path.read_text().replace("name: a\n", f"name: a\n  creationTimestamp: {T0}\n"))
    assert from_files([path]).now == 1767225600.0


@pytest.mark.parametrize(
    ("value", "now", "there", "coming"),
    [
        pytest.param([job("a"), job("b")], 0.0, ["a", "b"], {}, id="no times: all at the beginning"),
        pytest.param([job("a", created=T0), job("b", created=T1)], 1767225600.0, ["a"], {"b": 60.0}, id="by creation"),
        pytest.param([job("a"), job("b", at="90s")], 0.0, ["a"], {"b": 90.0}, id="by annotation"),
        pytest.param([job("b", at="1.5s", created=T1)], 1767225660.0, [], {"b": 1.5}, id="annotation wins"),
    ],
)
def test_when_jobs_come(value: list[Manifest], now: float, there: list[str], coming: dict[str, float]) -> None:
    made = world(tree(), queue(), value)
    assert made.now == now
    waiting = sorted(made.title(w.key).rpartition("/")[2] for w in made.queues.workloads())
    assert waiting == there
    assert {made.title(a.workload.key).rpartition("/")[2]: a.at - now for a in made.arrivals} == coming
    assert all(arrival.workload.queued == arrival.at for arrival in made.arrivals)


def workload(name: str, *, admitted_at: str | None = None, owner: str | None = None) -> Manifest:
    """A Workload as a live cluster has it, of one pod of 3 cpus."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "3"}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    meta: Manifest = {"uid": f"uid-{name}", "creationTimestamp": T0}
    if owner:
        meta["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": "u", "controller": True}
        ]
    made = manifest("Workload", name, "default", metadata=meta, spec={"queueName": "q", "podSets": [pod_set]})
    if admitted_at:
        held = {"status": "True", "reason": "x", "message": "", "lastTransitionTime": admitted_at}
        got = {"name": "main", "flavors": {"cpu": "tas"}, "resourceUsage": {"cpu": "3"}, "count": 1}
        slices = {"domainCount": 1, "valuesPerLevel": [{"universal": "r0-h0"}], "podCounts": {"universal": 1}}
        got["topologyAssignment"] = {"levels": [HOST], "slices": [slices]}
        made["status"] = {
            "conditions": [{"type": "QuotaReserved", **held}, {"type": "Admitted", **held}],
            "admission": {"clusterQueue": "q", "podSetAssignments": [got]},
        }
    return made


def test_a_copy_of_a_live_cluster_begins_where_it_was_taken() -> None:
    running, waiting = workload("running", admitted_at=T1, owner="its-job"), workload("waiting")
    done = manifest("Job", "done", metadata=job("x")["metadata"] | {"name": "done"}, spec=job("x")["spec"])
    done["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    its_job = job("its-job", runs="5m")
    made = world(tree(1, 1), queue(), running, waiting, its_job, done)
    assert not made.faults
    assert made.now == 1767225660.0
    assert set(made.ledger.admissions) == {"default/running"}
    assert [w.key for w in made.queues.workloads()] == ["default/waiting"]
    assert made.about["default/running"].title == "Job default/its-job"
    assert made.about["default/running"].run_for == 300.0
    assert made.about["default/running"].since == made.now
    assert [type(d) for d in made.cycle().decisions] == [Wait]  # one cpu is left of four


# ---- what is not taken


def broken_queue() -> Manifest:
    return queue()[0] | {"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": "none"}]}}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param(
            manifest("DaemonSet", "web") | {"apiVersion": "apps/v1"},
            "made.yaml: DaemonSet web: not read: a kind that has no part in admission",
            id="unknown kind",
        ),
        pytest.param(
            queue("old")[0] | {"apiVersion": "kueue.x-k8s.io/v1beta1"},
            "made.yaml: ClusterQueue old: not read: its apiVersion is 'kueue.x-k8s.io/v1beta1', "
            "only kueue.x-k8s.io/v1beta2 is supported",
            id="another version",
        ),
        pytest.param(
            {"kind": "Job", "apiVersion": "batch/v1"}, "made.yaml: Job: metadata.name is missing", id="no name"
        ),
        pytest.param(
            node("bad", "r0") | {"status": {"allocatable": {"cpu": "many"}}},
            "made.yaml: Node bad: status.allocatable[cpu]: 'many'",
            id="a node's quantity",
        ),
        pytest.param(
            job("bad", cpu="lots"), "made.yaml: Job default/bad: spec.podSets[0].template", id="a job's quantity"
        ),
        pytest.param(
            job("bad", at="soon"),
            f"made.yaml: Job default/bad: metadata.annotations[{names.SIMULATED_ARRIVAL}]: 'soon'",
            id="no duration",
        ),
        pytest.param(
            job("bad", saves="0s"),
            f"made.yaml: Job default/bad: metadata.annotations[{names.SIMULATED_CHECKPOINTS}]: '0s': must be more than 0",
            id="no time between checkpoints",
        ),
        pytest.param(
            job("bad", created="yesterday"), "made.yaml: Job default/bad: metadata.creationTimestamp", id="no time"
        ),
        pytest.param(
            job("bad", labels={names.PRIORITY_CLASS_LABEL: "royal"}),
            'made.yaml: Job default/bad: WorkloadPriorityClass "royal" not found',
            id="no such class",
        ),
        pytest.param(
            job("bad", require="floor"),
            'made.yaml: Job default/bad: metadata.annotations[kueue.x-k8s.io/require-topology]: Invalid value: "floor"',
            id="no such level",
        ),
        pytest.param(
            manifest("Job", "free", spec=job("x")["spec"]),
            "made.yaml: Job default/free: names no queue",
            id="no queue name",
        ),
        pytest.param(broken_queue(), "made.yaml: ClusterQueue q: ", id="a field of another type"),
    ],
)
def test_bad_objects_are_named_and_the_rest_goes_on(bad: Manifest, message: str) -> None:
    made = world(tree(), queue(), bad, job("good", 2))
    assert len(made.faults) == 1
    assert str(made.faults[0]).startswith(message)
    assert admitted(made) == {"good": {"r0-h0": 2}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", "neither YAML nor JSON", id="no YAML"),
        pytest.param("just a text", "holds str", id="no object"),
        pytest.param("- a\n- b", "holds list", id="a bare list"),
        pytest.param('{"kind": "List", "items": [3]}', "the List holds int", id="no objects in it"),
        pytest.param('{"kind": "Job", ', "neither YAML nor JSON", id="half of it"),
    ],
)
def test_a_file_in_which_nothing_can_be_read(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(Unreadable, match=f"{path.name}: .*{message}"):
        list(documents([path]))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"none\.yaml: No such file"):
        list(documents([tmp_path / "none.yaml"]))


def test_an_undescribed_namespace_has_its_name_label() -> None:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    assert admitted(world(tree(), queue(namespaceSelector=selector), job("a"))) == {"a": {"r0-h0": 1}}


def test_equals_keep_their_place_in_the_files() -> None:
    made = world(tree(1, 1), queue(), job("second", 3), job("first", 3))
    assert list(admitted(made)) == ["second"]
    turned = world(flat([tree(1, 1), queue(), job("first", 3), job("second", 3)]))
    assert list(admitted(turned)) == ["first"]


@pytest.mark.parametrize(("count", "starts"), [pytest.param(1, 1, id="one-is-done"), pytest.param(7, 0, id="absurd")])
def test_a_workload_with_absurd_reclaimable_pods_is_told_and_stays_charged(count: int, starts: int) -> None:
    pods = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    got = {"name": "main", "count": 4, "flavors": {"cpu": "tas"}, "resourceUsage": {"cpu": "4"}}
    states = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": T0}
        for kind in ("QuotaReserved", "Admitted")
    ]
    status = {
        "admission": {"clusterQueue": "q", "podSetAssignments": [got]},
        "conditions": states,
        "reclaimablePods": [{"name": "main", "count": count}],
    }
    spec = {"queueName": "q", "podSets": [{"name": "main", "count": 4, "template": {"spec": pods}}]}
    made = world(tree(), queue(cpu=4), manifest("Workload", "wide", "default", spec=spec, status=status), job("next"))
    assert len(admitted(made)) == starts
    assert [str(fault).endswith("all of its pods stay charged") for fault in made.faults] == ([] if starts else [True])
