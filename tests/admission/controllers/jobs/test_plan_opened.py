"""What is planned on the opened path: the template names the only domain of the pods."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from admission.controllers.jobs.actions import PatchJob
from admission.controllers.jobs.context import JobOptions
from admission.controllers.jobs.plan.job_plan import plan
from admission.integrations.base import JobIntegration
from api import names
from api.topology import ResourceFlavor
from api.workloads import UnhealthyNode
from tests.admission.controllers.jobs.planned import (
    ACTIVE,
    AROUND,
    FAST,
    GATE,
    HOST,
    JOB,
    JOBSET,
    admitted,
    placed,
    started,
    waiting_job,
    with_status,
    workload_of,
)
from tests.admission.integrations.samples import jobset, merged


@pytest.mark.parametrize(
    ("levels", "racks", "open_templates", "kind", "opened"),
    [
        pytest.param(("block", "rack"), [("b", "r1")], True, JOB, True, id="one rack"),
        pytest.param(("block", "rack"), [("b", "r1"), ("b", "r2")], True, JOB, False, id="two racks"),
        pytest.param(("kubernetes.io/hostname",), [("r1",)], True, JOB, True, id="a host"),
        pytest.param(("kubernetes.io/hostname",), [("n1",), ("r1",)], True, JOB, False, id="two hosts"),
        pytest.param(("block", "rack"), [("b", "r1")], False, JOB, False, id="set otherwise"),
        pytest.param(("block", "rack"), [("b", "r1")], True, JOBSET, False, id="child jobs keep what they have"),
    ],
)
def test_a_single_domain_is_named_in_the_template_itself(
    levels: tuple[str, ...], racks: list[tuple[str, ...]], open_templates: bool, kind: JobIntegration, opened: bool
) -> None:
    job = waiting_job() if kind is JOB else jobset()
    gated = json.loads(json.dumps(job).replace("example.com/other", GATE))
    around = replace(AROUND, options=JobOptions(open_templates=open_templates))
    workload = placed(admitted(workload_of(gated, kind)), levels, racks)
    (patch,) = [a.patch for a in plan(gated, kind, [workload], around, 0.0).actions if isinstance(a, PatchJob)]
    started_as = json.dumps(merged(gated, patch))
    assert (f'"name": "{GATE}"' not in started_as) is opened
    assert (f'"{levels[-1]}": "r1"' in started_as) is opened
    assert (f'"{names.OPENED_LABEL}": "true"' in started_as) is opened


def test_a_mark_copied_from_a_job_that_came_open_does_not_hide_gated_pods() -> None:
    # The ungater does not see marked pods: a gated one would wait for ever.
    copied = json.loads(json.dumps(waiting_job()).replace("example.com/other", GATE))
    copied["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {})[names.OPENED_LABEL] = "true"
    workload = placed(admitted(workload_of(copied)), (HOST,), [("n1",), ("n2",)])
    template = started(copied, workload)["spec"]["template"]
    assert {"name": GATE} in template["spec"]["schedulingGates"]
    assert names.OPENED_LABEL not in template["metadata"]["labels"]


@pytest.mark.parametrize(
    ("unhealthy", "now_at", "started_at"),
    [
        pytest.param(["n1"], ["n1"], None, id="no other host yet: the pods wait at the gate"),
        pytest.param([], ["n2"], "n2", id="another host"),
        pytest.param([], ["n2", "n3"], None, id="two others"),
        pytest.param([], ["n1"], "n1", id="the host itself, well again"),
    ],
)
def test_on_the_opened_path_a_job_whose_host_failed_restarts_with_its_admission(
    unhealthy: list[str], now_at: list[str], started_at: str | None
) -> None:
    own = json.loads(json.dumps(waiting_job()).replace("example.com/other", GATE))
    before = placed(admitted(workload_of(own)), (HOST,), [("n1",)])
    job = started(own, before, around=FAST) | {"status": ACTIVE}
    assert plan(job, JOB, [before], FAST, 0.0).actions == ()
    failed = with_status(before, lambda s: s.model_copy(update={"unhealthy_nodes": (UnhealthyNode(name="n1"),)}))

    (stop,) = plan(job, JOB, [failed], FAST, 0.0).actions
    assert isinstance(stop, PatchJob)
    assert [event.message for event in stop.events] == ["Host n1 failed; the job starts again where its pods go now"]
    job = merged(job, stop.patch)
    assert plan(job, JOB, [failed], FAST, 0.0).actions == (), "its pods are not gone yet"
    job |= {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
    (restore,) = plan(job, JOB, [failed], FAST, 0.0).actions
    assert isinstance(restore, PatchJob)
    job = merged(job, restore.patch)

    after = placed(before, (HOST,), [(host,) for host in now_at])
    nodes = tuple(UnhealthyNode(name=name) for name in unhealthy)
    after = with_status(after, lambda s: s.model_copy(update={"unhealthy_nodes": nodes}))
    (start,) = plan(job, JOB, [after], FAST, 0.0).actions
    assert isinstance(start, PatchJob)
    job = merged(job, start.patch) | {"status": ACTIVE}
    pods = job["spec"]["template"]["spec"]
    assert pods["nodeSelector"].get(HOST) == started_at
    assert (GATE in json.dumps(pods.get("schedulingGates", []))) is (started_at is None)
    assert plan(job, JOB, [after], FAST, 0.0).actions == ()


@pytest.mark.parametrize(
    ("levels", "domains", "gate"),
    [
        pytest.param(("block", "rack"), [("b", "r1")], False, id="pods go to a rack"),
        pytest.param((HOST,), [("n2",), ("n3",)], True, id="pods wait at the gate"),
    ],
)
def test_a_users_own_host_selector_restarts_no_job(
    levels: tuple[str, ...], domains: list[tuple[str, ...]], gate: bool
) -> None:
    """A flavor's node labels may name a host."""
    own = json.loads(json.dumps(waiting_job()).replace("example.com/other", GATE))
    workload = placed(admitted(workload_of(own)), levels, domains)
    flavor = ResourceFlavor.from_wire({"metadata": {"name": "tas"}, "spec": {"nodeLabels": {HOST: "n1"}}})
    around = replace(FAST, flavors={"tas": flavor})
    (start,) = plan(own, JOB, [workload], around, 0.0).actions
    assert isinstance(start, PatchJob)
    job = merged(own, start.patch) | {"status": ACTIVE}
    pods = job["spec"]["template"]["spec"]
    assert pods["nodeSelector"][HOST] == "n1"
    assert (GATE in json.dumps(pods.get("schedulingGates", []))) is gate
    assert plan(job, JOB, [workload], around, 0.0).actions == ()
