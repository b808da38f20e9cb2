"""Queues, flavors, topologies and Workloads: bad input to the exact answer, beyond the conformance cases."""

from __future__ import annotations

from typing import Any

import pytest

from admission.webhook.kinds import flavors, queues, workloads
from admission.webhook.rules.review_rules import ReviewRules
from api.names import HOSTNAME_LABEL
from tests.admission.webhook.objects import BLOCK, RACK
from tests.admission.webhook.rules.test_jobs import lines

RULES = ReviewRules()
HOST_LAST = f"the {HOSTNAME_LABEL} label can only be used at the lowest level of topology"


def flavor(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "f"}, "spec": {"nodeLabels": {"group": "tas"}, **spec}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"topology": {"levels": [BLOCK, RACK]}}, [], id="inline"),
        pytest.param({"topologyName": "t"}, [], id="by-name"),
        pytest.param({"nodeLabels": {}}, [], id="plain-flavor-for-all-nodes"),
        pytest.param(
            {"topologyName": "t", "topology": {"levels": [RACK]}},
            ["spec.topology: Forbidden: may not be set when topologyName is set"],
            id="both-forms",
        ),
        pytest.param(
            {"nodeLabels": {}, "topology": {"levels": [RACK]}},
            ["spec.nodeLabels: Required value: at least one nodeLabel is required when topology is set"],
            id="no-node-labels",
        ),
        pytest.param(
            {"topology": {"levels": [RACK, RACK]}},
            [f'spec.topology.levels[1]: Duplicate value: "{RACK}"'],
            id="level-twice",
        ),
        pytest.param(
            {"topology": {"levels": [HOSTNAME_LABEL, RACK]}},
            [f'spec.topology.levels[0]: Invalid value: "{HOSTNAME_LABEL}": {HOST_LAST}'],
            id="host-above-rack",
        ),
        pytest.param(
            {"topology": {"levels": [f"l{i}" for i in range(17)]}},
            ["spec.topology.levels: Invalid value: 17: must have between 1 and 16 levels"],
            id="too-many-levels",
        ),
        pytest.param(
            {"nodeTaints": [{"key": "k", "value": "v", "effect": "NoWay"}]},
            [
                'spec.nodeTaints[0].effect: Unsupported value: "NoWay": '
                'supported values: "NoExecute", "NoSchedule", "PreferNoSchedule"'
            ],
            id="taint-effect",
        ),
        pytest.param(
            {"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]},
            ["spec.tolerations[0].operator: Invalid value: \"v\": a value must be empty when 'operator' is 'Exists'"],
            id="toleration-value",
        ),
    ],
)
def test_flavors(spec: dict[str, Any], want: list[str]) -> None:
    assert lines(flavors.validate_flavor(flavor(**spec))) == want


def test_the_topology_of_a_flavor_stays() -> None:
    errors = flavors.validate_flavor_update(flavor(topologyName="t"), flavor(topologyName="u"))
    assert [e.detail for e in errors] == ["topologyName is immutable when topologyName is set"]
    assert flavors.validate_flavor_update(flavor(), flavor(topologyName="u")) == []


@pytest.mark.parametrize("form", [{"topologyName": "t"}, {"topology": {"levels": [RACK]}}], ids=["by-name", "inline"])
@pytest.mark.parametrize(
    ("field", "before", "after"),
    [
        pytest.param("nodeLabels", {"pool": "a"}, {"pool": "b"}, id="other label"),
        pytest.param("nodeLabels", {"pool": "a"}, {"pool": "a", "more": "x"}, id="one label more"),
        pytest.param("tolerations", None, [{"operator": "Exists"}], id="toleration added"),
        pytest.param("tolerations", [{"operator": "Exists"}], None, id="toleration removed"),
    ],
)
def test_what_chooses_the_nodes_of_a_topology_flavor_stays(form: Any, field: str, before: Any, after: Any) -> None:
    plain = flavors.validate_flavor_update(flavor(**{field: before}), flavor(**{field: after}))
    assert plain == []
    errors = flavors.validate_flavor_update(flavor(**form, **{field: before}), flavor(**form, **{field: after}))
    assert [(e.field, e.detail) for e in errors] == [
        (f"spec.{field}", f"{field} is immutable when {next(iter(form))} is set")
    ]
    assert flavors.validate_flavor_update(flavor(**form, **{field: before}), flavor(**form, **{field: before})) == []


def test_the_levels_of_a_topology_are_not_reordered() -> None:
    before = topology(BLOCK, RACK, HOSTNAME_LABEL)
    errors = flavors.validate_topology_update(before, topology(RACK, BLOCK, HOSTNAME_LABEL))
    assert [e.detail for e in errors] == ["levels may be added and removed, but not reordered"]
    assert flavors.validate_topology_update(before, topology(RACK, HOSTNAME_LABEL)) == []


def topology(*levels: str) -> dict[str, Any]:
    return {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": level} for level in levels]}}


def test_levels_change_only_above_hosts() -> None:
    rule = f"levels are mutable only when {HOSTNAME_LABEL} is the lowest level both before and after the change"
    above = flavors.validate_topology_update(topology(RACK, HOSTNAME_LABEL), topology(BLOCK, RACK, HOSTNAME_LABEL))
    assert above == []
    errors = flavors.validate_topology_update(topology(RACK), topology(BLOCK, RACK))
    assert [e.detail for e in errors] == [rule]


def cluster_queue(*quotas: dict[str, Any], **spec: Any) -> dict[str, Any]:
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": f"f{i}", "resources": [q]} for i, q in enumerate(quotas)],
    }
    return {"metadata": {"name": "cq"}, "spec": {"resourceGroups": [group], **spec}}


CPU = {"name": "cpu", "nominalQuota": "4"}
QUOTA = "spec.resourceGroups[0].flavors[0].resources[0]"


@pytest.mark.parametrize(
    ("queue", "want"),
    [
        pytest.param(cluster_queue(CPU), [], id="valid"),
        pytest.param(
            cluster_queue({"name": "memory", "nominalQuota": 1}),
            [f'{QUOTA}.name: Invalid value: "memory": must match the name in coveredResources'],
            id="order",
        ),
        pytest.param(
            cluster_queue({**CPU, "nominalQuota": "four"}),
            [f'{QUOTA}.nominalQuota: Invalid value: "four": must be a quantity such as 2, 500m, 1.5, 64Gi or 1e3'],
            id="no-quantity",
        ),
        pytest.param(
            cluster_queue(CPU, resourceGroups=[{"coveredResources": ["cpu"]}, {"coveredResources": ["cpu"]}]),
            ['spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"'],
            id="resource-in-two-groups",
        ),
        pytest.param(
            cluster_queue(*[CPU] * 257),
            [
                "spec.resourceGroups: Invalid value: 257: "
                "total number of flavors across all resourceGroups must be ≤ 256, got 257"
            ],
            id="too-many-flavors",
        ),
        pytest.param(
            cluster_queue(CPU, preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}),
            [
                'spec.preemption: Invalid value: {"borrowWithinCohort":{"policy":"LowerPriority"}}: '
                "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
            ],
            id="preemption",
        ),
        pytest.param(
            cluster_queue(CPU, fairSharing={"weight": "1n"}),
            ['spec.fairSharing.weight: Invalid value: "1n": When not 0, weight must be > 10e-9'],
            id="weight",
        ),
    ],
)
def test_cluster_queues(queue: dict[str, Any], want: list[str]) -> None:
    assert lines(queues.validate_cluster_queue(queue, RULES)) == want


def test_a_local_queue_keeps_its_cluster_queue() -> None:
    old, new = ({"spec": {"clusterQueue": name}} for name in ("a", "b"))
    errors = queues.validate_local_queue_update(old, new)
    assert lines(errors) == ['spec.clusterQueue: Invalid value: "b": field is immutable']


def test_a_lone_pod_set_is_main() -> None:
    workload: dict[str, Any] = {"spec": {"podSets": [{"count": 1, "minCount": 1}]}}
    workloads.set_defaults(workload)
    assert workload == {"spec": {"podSets": [{"count": 1, "minCount": 1, "name": "main"}]}}


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param(
            {"podSetSliceRequiredTopology": RACK},
            "Required value: must be set when podSetSliceRequiredTopology is specified",
            id="no-size",
        ),
        pytest.param(
            {"podSetSliceSize": 2},
            "Forbidden: may not be set when podSetSliceRequiredTopology is not specified",
            id="no-level",
        ),
        pytest.param(
            {"podSetSliceRequiredTopology": RACK, "podSetSliceSize": 0},
            "Invalid value: 0: must be greater than 0",
            id="size-0",
        ),
    ],
)
def test_slices_of_a_workload(request_: dict[str, Any], want: str) -> None:
    workload = {"spec": {"podSets": [{"name": "main", "count": 4, "topologyRequest": request_}]}}
    errors = workloads.validate_create(workload, RULES)
    assert lines(errors) == [f"spec.podSets[0].topologyRequest.podSetSliceSize: {want}"]


def test_a_negative_sub_group_count_is_warned_of() -> None:
    workload = {"spec": {"podSets": [{"name": "main", "topologyRequest": {"subGroupCount": -1}}]}}
    assert workloads.warnings(workload) == [
        "spec.podSets[0].topologyRequest.subGroupCount: should be 0 or more, got -1"
    ]


def with_quota(**changes: Any) -> dict[str, Any]:
    """An admitted Workload, as we store it; `changes` of its only assignment."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1000m"}, "limits": {}}, "stdin": False}
    template = {"metadata": {"labels": {"a": ""}}, "spec": {"containers": [container], "nodeSelector": {"x": ""}}}
    assignment = {"name": "main", "flavors": {}, "resourceUsage": {"cpu": "2000m"}, "count": 2, **changes}
    condition = {"type": "QuotaReserved", "status": "True", "reason": "R", "message": ""}
    return {
        "metadata": {"name": "w"},
        "spec": {"podSets": [{"name": "main", "count": 2, "template": template}]},
        "status": {
            "admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]},
            "conditions": [condition],
            "admissionChecks": [{"name": "c", "state": "Ready", "podSetUpdates": [{"name": "main", "labels": {}}]}],
        },
    }


def test_what_a_go_client_drops_or_writes_otherwise_is_no_change() -> None:
    """Empty fields and zeros go, quantities become canonical, labels with an empty value stay."""
    before, after = with_quota(), with_quota(resourceUsage={"cpu": "2"})
    del after["status"]["admission"]["podSetAssignments"][0]["flavors"]
    del after["status"]["admissionChecks"][0]["podSetUpdates"][0]["labels"]
    template = after["spec"]["podSets"][0]["template"]
    template["metadata"]["creationTimestamp"] = None
    template["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    assert lines(workloads.validate_update(before, after, RULES)) == []


def changed(**fields: Any) -> dict[str, Any]:
    after = with_quota()
    after["spec"]["podSets"][0]["template"]["spec"].update(fields)
    return after


@pytest.mark.parametrize(
    ("after", "field"),
    [
        pytest.param(with_quota(flavors={"cpu": "f"}), "status.admission", id="flavor"),
        pytest.param(with_quota(resourceUsage={"cpu": "4"}), "status.admission", id="usage"),
        pytest.param(changed(nodeSelector={}), "spec.podSets.0", id="label-with-an-empty-value"),
        pytest.param(changed(hostNetwork=True), "spec.podSets.0", id="switch"),
    ],
)
def test_a_real_change_is_still_one(after: dict[str, Any], field: str) -> None:
    assert [error.field for error in workloads.validate_update(with_quota(), after, RULES)] == [field]
