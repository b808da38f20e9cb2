"""Required anti-affinity by which a pod keeps others like it away from its node, as one name a term."""

from __future__ import annotations

from typing import Any

import pytest

from api.names import HOSTNAME_LABEL
from api.pod.exclusive import ANTI_AFFINITY, DISK, disks, exclusive
from api.pod.pods import pod_spec

LABELS = {"app": "train", "job-name": "j1"}


def names(*terms: dict[str, Any], namespace: str = "ns", labels: dict[str, str] = LABELS) -> list[str]:
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}
    spec = pod_spec({"spec": {"containers": [], "affinity": affinity}})
    return [name.removeprefix(ANTI_AFFINITY) for name in exclusive(spec, namespace, labels)]


def term(selector: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    return {"topologyKey": HOSTNAME_LABEL, "labelSelector": selector, **more}


APP = {"matchLabels": {"app": "train"}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(term(APP), ["ns/app=train"], id="keeps its like away"),
        pytest.param(term({"matchLabels": {"app": "other"}}), [], id="keeps others away"),
        pytest.param({**term(APP), "topologyKey": "example.com/rack"}, [], id="another level"),
        pytest.param(term(None), [], id="no selector selects nothing"),
        pytest.param(term({}), ["ns/"], id="an empty selector selects all"),
        pytest.param(term(APP, namespaces=["other"]), [], id="another namespace"),
        pytest.param(term(APP, namespaces=["other", "ns"]), ["ns/app=train"], id="its namespace named"),
        pytest.param(term(APP, namespaceSelector={}), ["ns/app=train"], id="all namespaces"),
        pytest.param(term(APP, namespaceSelector={"matchLabels": {"a": "b"}}), [], id="namespaces by their labels"),
        pytest.param(
            term(APP, matchLabelKeys=["job-name"]), ["ns/app=train and job-name In j1"], id="matchLabelKeys are merged"
        ),
        pytest.param(term(APP, mismatchLabelKeys=["job-name"]), [], id="mismatchLabelKeys leave out its like"),
        pytest.param(
            term({"matchExpressions": [{"key": "app", "operator": "In", "values": ["z", "train"]}]}),
            ["ns/app In train,z"],
            id="an expression",
        ),
        pytest.param(term({"matchExpressions": [{"operator": "In"}]}), [], id="an expression that cannot be read"),
        pytest.param(term({"matchExpressions": 5}), [], id="expressions that are a number"),
        pytest.param(term({"matchLabels": [1]}), [], id="labels that are a list"),
        pytest.param(
            term({"matchExpressions": [{"key": "app", "operator": "Exists", "values": 5}]}),
            [],
            id="values that are a number",
        ),
        pytest.param(term({"matchExpressions": "x"}), [], id="expressions that are no list"),
    ],
)
def test_a_term_becomes_a_name(value: dict[str, Any], expected: list[str]) -> None:
    assert names(value) == expected


def test_the_order_of_words_does_not_matter() -> None:
    first = {"matchLabels": {"app": "train", "job-name": "j1"}}
    second = {"matchLabels": {"job-name": "j1", "app": "train"}}
    assert names(term(first)) == names(term(second))


def test_a_hostile_selector_gives_a_short_name_and_few_terms() -> None:
    many = {f"k{n}": "v" * 60 for n in range(1000)}
    [name] = names(term({"matchLabels": many}), labels=many)
    [other] = names(term({"matchLabels": {**many, "k0": "w"}}), labels={**many, "k0": "w"})
    assert len(name) <= 120
    assert name != other
    each = [term({"matchLabels": {f"k{n}": "v" * 60}}) for n in range(1000)]
    assert len(names(*each, labels=many)) <= 64


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param({"gcePersistentDisk": {"pdName": "a"}}, ["gcePersistentDisk a"], id="gce"),
        pytest.param({"gcePersistentDisk": {"pdName": "a", "readOnly": True}}, [], id="gce read-only"),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}}, ["awsElasticBlockStore v"], id="ebs"
        ),
        pytest.param({"iscsi": {"iqn": "iqn.x", "lun": 1, "targetPortal": "p"}}, ["iscsi iqn.x"], id="iscsi"),
        pytest.param({"rbd": {"image": "i", "monitors": ["m"]}}, ["rbd rbd/i"], id="rbd of the default pool"),
        pytest.param({"emptyDir": {}}, [], id="no disk"),
    ],
)
def test_a_disk_that_a_pod_names_itself(volume: dict[str, Any], expected: list[str]) -> None:
    spec = pod_spec({"spec": {"containers": [], "volumes": [{"name": "v", **volume}]}})
    assert [name.removeprefix(DISK) for name in disks(spec)] == expected


def test_a_long_name_of_a_disk_is_shortened_and_stays_unique() -> None:
    found = [
        name
        for end in "ab"
        for name in disks(pod_spec({"spec": {"containers": [], "volumes": [{"rbd": {"image": "i" * 500 + end}}]}}))
    ]
    assert len(set(found)) == 2
    assert max(map(len, found)) <= 120
