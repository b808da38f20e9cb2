"""Each check names its fault, and no other check does; test_doctor.py of tests/e2e runs the commands."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from admission.cli.local_cluster.install import CONFIG
from admission.controllers.pods.gangs import freequeue
from admission.doctor.checks import ALL
from admission.doctor.finding import Check, Finding
from admission.doctor.pod_facts import PodFacts
from admission.doctor.question import Question
from admission.doctor.report import Report, examined
from admission.doctor.view import Unmanaged, View
from api.kube import resources as kinds
from api.names import HOSTNAME_LABEL, SAKKARA_QUEUE
from api.text.manifests import read
from api.topology import ResourceFlavor
from tests.admission.doctor import healthy
from tests.admission.doctor.faults import (
    CASES,
    CREDITS,
    EXAMPLE,
    JOB,
    WORKLOADS_CRD,
    Objects,
    add,
    add_quota,
    asking,
    give,
    of,
    out_of_service,
    owned,
    settings,
    with_,
    without,
)
from tests.admission.doctor.healthy import Obj, flavor, named, node, queue
from tests.builders import condition


def found(report: Report) -> list[str]:
    return [check.name for check, _ in report.findings]


def test_nothing_is_wrong_with_a_healthy_cluster() -> None:
    report = examined(healthy.view(), ALL)
    assert found(report) == []
    assert len(report.passed) == len(ALL)


@pytest.mark.parametrize(("view", "check", "command"), CASES.values(), ids=CASES)
def test_a_fault_is_named_alone(view: View, check: str, command: str) -> None:
    report = examined(view, ALL)
    assert found(report) == [check]
    _, (finding,) = report.findings[0]
    assert finding.command.startswith(command)
    assert finding.object
    assert finding.what


def test_a_cohort_of_many_queues_is_looked_at_once_for_all() -> None:
    """Each of 1,500 queues without quota is told, and none is taken for its own lender."""
    poor = [queue(f"poor-{n}", "train", "0", cohortName=f"c{n % 3}") for n in range(1500)]
    rich = queue("rich", "train", "8", cohortName="top")

    def cohorts(*queues: Obj) -> View:
        def change(objects: Objects) -> None:
            objects[kinds.CLUSTER_QUEUES].extend(queues)
            objects[kinds.COHORTS].extend(named(f"c{n}", {"parentName": "top"}) for n in range(3))

        return with_(change)

    ((check, some),) = examined(cohorts(*poor), ALL).findings
    assert (check.name, len(some)) == ("cohorts-starve", 1500)
    assert not examined(cohorts(*poor, rich), ALL).findings


def test_a_part_that_could_not_be_read_keeps_a_check_from_passing_and_its_findings_stay() -> None:
    gaps = {Question.UNMANAGED: "these kinds could not be listed: x.example.com"}
    report = examined(healthy.view(gaps=gaps), ALL)
    assert not report.findings
    assert "x.example.com" in report.unread["kinds-without-declaration"]
    assert "kinds-without-declaration" not in {check.name for check in report.passed}
    report = examined(healthy.view(gaps=gaps, unmanaged=[Unmanaged(EXAMPLE, "a", "t", "Train names q")]), ALL)
    assert found(report) == ["kinds-without-declaration"]
    assert any("x.example.com" in note for note in report.cut)


def test_a_remark_with_lines_of_others_stays_one_line() -> None:
    """It is printed for a person to copy: a second line would be a command."""
    bad = Check("x", (), "", "", "", lambda view: [Finding("o", "w", "# leave a\nrm -rf / out")])
    (_, (finding,)) = examined(healthy.view(), [bad]).findings[0]
    assert finding.command == "# leave a rm -rf / out"


def test_every_check_has_a_fault() -> None:
    assert {check for _, check, _ in CASES.values()} == {check.name for check in ALL}


def test_a_check_that_cannot_read_does_not_pass() -> None:
    report = examined(healthy.view(unread={kinds.NODES: "403 Forbidden"}), ALL)
    assert "nodes: 403 Forbidden" in report.unread["nodes-without-levels"]
    assert {check.name for check in report.passed}.isdisjoint(report.unread)


@pytest.mark.parametrize(
    "spec", [7, [], {"resourceGroups": 7}, {"resourceGroups": [7]}, {"resourceGroups": [{"flavors": {"x": 1}}]}]
)
def test_an_object_of_another_form_stops_its_checks_alone(spec: Any) -> None:
    """Where others have changed the CRD, its schema keeps nothing out."""
    report = examined(add(kinds.CLUSTER_QUEUES, {"metadata": {"name": "odd"}, "spec": spec}), ALL)
    assert all("another form" in why for why in report.unread.values())
    assert "crds" in {check.name for check in report.passed}


def samples(objects: Objects) -> None:
    """What the README has users apply first, on the nodes of its simulations."""
    for kind in (kinds.NODES, kinds.TOPOLOGIES, kinds.RESOURCE_FLAVORS, kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES):
        objects[kind] = []
    by_kind = {resource.kind: resource for resource in (*objects, kinds.WORKLOAD_PRIORITY_CLASSES)}
    for name in ("flavor-levels", "topology", "queue", "tenants", "simulation/nodes"):
        for obj in read(CONFIG / "samples" / f"{name}.yaml"):
            objects.setdefault(by_kind[obj["kind"]], []).append(obj)
    for host in objects[kinds.NODES]:  # as large as what the queues of the samples promise together
        host["status"]["allocatable"] |= {"cpu": "128", "memory": "256Gi", "nvidia.com/gpu": "8"}


def own_queues(objects: Objects) -> None:
    """Those that Stowage makes for gangs without a queue name: they count pods, on all nodes, without end."""
    for name in freequeue.QUEUES:
        objects[kinds.RESOURCE_FLAVORS].append(freequeue.flavor(name).to_wire())
    flavors = {one["metadata"]["name"]: ResourceFlavor.from_wire(one) for one in objects[kinds.RESOURCE_FLAVORS]}
    objects[kinds.TOPOLOGIES].append(named(SAKKARA_QUEUE, {"levels": [{"nodeLabel": HOSTNAME_LABEL}]}))
    for name in freequeue.QUEUES:
        objects[kinds.CLUSTER_QUEUES].append(freequeue.cluster_queue(name, flavors).to_wire())


def reflowed(objects: Objects) -> None:
    """As Go's YAML folds indented lines, which Python's keeps as they are."""
    for kind in (kinds.MUTATING_WEBHOOKS, kinds.VALIDATING_WEBHOOKS):
        for hook in (each for configuration in objects[kind] for each in configuration["webhooks"]):
            for one in hook.get("matchConditions") or ():
                one["expression"] = one["expression"].replace("\n", "\n\n")


def in_a_cohort(objects: Objects) -> None:
    objects[kinds.COHORTS].append(named("alone"))
    of(objects, kinds.CLUSTER_QUEUES, "services")["spec"].update(cohortName="alone")


SOUND: dict[str, View] = {
    "the samples": with_(samples),
    "the queues of gangs": with_(own_queues),
    "racks are numbered anew in each block": with_(
        lambda objects: objects[kinds.NODES].extend(
            [
                *(node(f"m{n}", block="b2", rack="r1", pool="train") for n in range(2)),
                node("m3", block="b2", rack="r2", pool="train"),
            ]
        )
    ),
    "a finished Workload without owner": add(
        kinds.WORKLOADS, owned(JOB) | {"status": {"conditions": [condition("Finished")]}}, owners={JOB: frozenset()}
    ),
    "conditions of webhooks whose lines kustomize broke": with_(reflowed),
    "a flavor without nodes that no queue uses": add(kinds.RESOURCE_FLAVORS, flavor("later", {"x": "y"})),
    "processes outside of the cluster": with_(lambda objects: objects[kinds.DEPLOYMENTS].clear()),
    "pods of an admitted workload, and one that its queue let go": healthy.view(
        pods=[PodFacts("kube-system", "p", "n4", queue="queue q"), PodFacts("a", "q", "n4")]
    ),
    "a queue of a resource that the settings make": add_quota("example.com/credits", "8", settings_=CREDITS),
    "nodes that never had the devices of others": with_(lambda objects: give(objects, "n0", "8")),
    "nodes without devices that are taken out": with_(out_of_service),
    "two queues in a cohort without a Cohort": add(kinds.CLUSTER_QUEUES, queue("more", "train", "0", cohortName="all")),
    "a Cohort with one queue": with_(in_a_cohort),
    "a running Workload whose queue was deleted": add(
        kinds.WORKLOADS, asking("gone") | {"status": {"conditions": [condition("QuotaReserved")]}}
    ),
    "a queue that borrows only": add(kinds.CLUSTER_QUEUES, queue("more", "train", "0", cohortName="all")),
    "a queue with a right of its certificates missing where others issue them": settings(
        "webhook: {certificates: Files}", refused=list(healthy.shipped().certificates)
    ),
    "retention's rights missing where nothing is retained": healthy.view(refused=list(healthy.shipped().retention)),
}


@pytest.mark.parametrize("view", SOUND.values(), ids=SOUND)
def test_what_is_sound_is_not_named(view: View) -> None:
    assert [each for _, some in examined(view, ALL).findings for each in some] == []


def test_names_of_others_stay_single_words_of_a_command_and_leave_the_terminal_alone() -> None:
    """A tenant chooses names of objects of custom kinds, and their messages."""
    evil = Unmanaged(EXAMPLE, "a", "x; rm -rf $(y)\n`z`", "says \x1b[31m\nmore" + "x" * 10_000)
    (_, (finding,)) = examined(healthy.view(unmanaged=[evil]), ALL).findings[0]
    assert shlex.split(finding.command)[5] == evil.name
    assert finding.what.isprintable()
    assert len(finding.what) < 1000


def test_commands_name_the_cluster_that_was_looked_at() -> None:
    view = replace(without(kinds.CRDS, WORKLOADS_CRD), kubectl="kubectl --context=west")
    (_, (finding,)) = examined(view, ALL).findings[0]
    assert finding.command.startswith("kubectl --context=west apply")
