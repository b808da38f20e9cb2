"""The store without HTTP: what workers and quick tests lean on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api.embedded.request import WriteOptions
from api.embedded.status import StatusError
from api.embedded.store import APPLY, STRATEGIC, ObjectStorage
from api.embedded.writes.deletion import DeleteOptions
from api.kube.resources import CONFIG_MAPS, JOBS, NAMESPACES, NODES, PODS

Obj = dict[str, Any]
NOON = 1_767_268_800.0  # 2026-01-01T12:00:00Z


@pytest.fixture
def store() -> ObjectStorage:
    return ObjectStorage(clock=lambda: NOON, seed=1)


def pod(name: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def names(objects: Any) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def test_the_clock_and_the_seed_are_given() -> None:
    one, other = (ObjectStorage(clock=lambda: NOON, seed=7) for _ in range(2))
    made = [store.create(PODS, {**pod(""), "metadata": {"generateName": "p-"}}, "default") for store in (one, other)]
    assert made[0] == made[1]
    assert made[0]["metadata"]["creationTimestamp"] == "2026-01-01T12:00:00Z"


def test_what_comes_in_is_copied_and_completed(store: ObjectStorage) -> None:
    given = pod("x")
    made = store.create(PODS, given, "default")
    assert given == pod("x")
    assert (made["apiVersion"], made["kind"], made["status"]["phase"]) == ("v1", "Pod", "Pending")
    assert store.get(PODS, "x", "default") is made


def test_a_refusal_is_an_api_error_with_reason_and_details(store: ObjectStorage) -> None:
    with pytest.raises(StatusError) as refused:
        store.get(JOBS, "none", "default")
    assert (refused.value.status, refused.value.reason) == (404, "NotFound")
    assert refused.value.details == {"name": "none", "group": "batch", "kind": "jobs"}


def test_the_four_namespaces_are_there(store: ObjectStorage) -> None:
    assert names(store.list(NAMESPACES)) == ["default", "kube-node-lease", "kube-public", "kube-system"]


def test_update_patch_and_their_options(store: ObjectStorage) -> None:
    made = store.create(PODS, pod("x", schedulingGates=[{"name": "a/b"}]), "default")
    dry = store.patch(PODS, "x", {"metadata": {"labels": {"a": "1"}}}, "default", options=WriteOptions(dry_run=True))
    assert dry["metadata"]["labels"] == {"a": "1"}
    assert store.get(PODS, "x", "default") is made
    opened = store.patch(
        PODS, "x", {"spec": {"schedulingGates": [{"name": "a/b", "$patch": "delete"}]}}, "default", content=STRATEGIC
    )
    assert "schedulingGates" not in opened["spec"]
    running = store.update(PODS, {**opened, "status": {"phase": "Running"}}, subresource="status")
    assert running["status"]["phase"] == "Running"
    with pytest.raises(StatusError, match="the object has been modified"):
        store.update(PODS, made)


def test_bind(store: ObjectStorage) -> None:
    store.create(PODS, pod("x"), "default")
    assert store.bind("default", "x", "n1")["spec"]["nodeName"] == "n1"
    with pytest.raises(StatusError, match='already assigned to node "n1"'):
        store.bind("default", "x", "n2")


def test_seed_takes_objects_as_they_are(store: ObjectStorage) -> None:
    store.seed(NODES, ({"metadata": {"name": f"n{i}"}, "status": {"phase": "Up"}} for i in (2, 0, 1)))
    assert names(store.list(NODES)) == ["n0", "n1", "n2"]
    assert store.get(NODES, "n1")["status"] == {"phase": "Up"}


def test_drain_gives_what_happened_since(store: ObjectStorage) -> None:
    store.create(PODS, pod("early"), "default")
    watch = store.watch(PODS, "default", labels="on")
    store.create(PODS, pod("x"), "default")
    for value in ("1", "2", None):
        store.patch(PODS, "x", {"metadata": {"labels": {"on": value}}}, "default")
    events = watch.drain()
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[-1].record.obj["metadata"]["resourceVersion"] == str(store.resource_version)
    assert watch.drain() == []
    watch.close()
    store.patch(PODS, "x", {"metadata": {"labels": {"on": "3"}}}, "default")
    assert watch.drain() == []


async def test_a_watch_waits_for_events(store: ObjectStorage) -> None:
    watch = store.watch(PODS)
    assert not await watch.wait(0)
    asyncio.get_running_loop().call_soon(store.create, PODS, pod("x"), "default")
    async for event in watch:
        assert event.record.obj["metadata"]["name"] == "x"
        break
    watch.close()
    assert [event async for event in watch] == []


def test_a_pod_on_a_node_ends_when_its_kubelet_says_so(store: ObjectStorage) -> None:
    store.create(PODS, pod("x", nodeName="n1", terminationGracePeriodSeconds=60), "default")
    assert store.delete(PODS, "x", "default") is False
    assert store.get(PODS, "x", "default")["metadata"]["deletionTimestamp"] == "2026-01-01T12:01:00Z"
    assert store.delete(PODS, "x", "default", options=DeleteOptions(grace=0)) is True
    assert store.list(PODS) == []


def test_a_namespace_takes_its_content_along(store: ObjectStorage) -> None:
    store.create(NAMESPACES, {"metadata": {"name": "team"}})
    store.create(PODS, pod("x"), "team")
    store.create(CONFIG_MAPS, {"metadata": {"name": "held", "finalizers": ["a.dev/b"]}}, "team")
    store.delete(NAMESPACES, "team")
    assert store.get(NAMESPACES, "team")["status"]["phase"] == "Terminating"
    assert store.list(PODS, "team") == []
    with pytest.raises(StatusError, match="because it is being terminated"):
        store.create(PODS, pod("late"), "team")
    store.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, "team")
    assert "team" not in names(store.list(NAMESPACES))


def _owned(name: str, *owners: Obj, **ref: Any) -> Obj:
    refs = [{"apiVersion": "v1", "kind": "ConfigMap", **_id(owner), **ref} for owner in owners]
    return {"metadata": {"name": name, "ownerReferences": refs}}


def _id(owner: Obj) -> Obj:
    return {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}


def test_a_dependent_stays_while_one_owner_lives(store: ObjectStorage) -> None:
    one, two = (store.create(CONFIG_MAPS, {"metadata": {"name": name}}, "default") for name in ("one", "two"))
    child = store.create(CONFIG_MAPS, _owned("child", one, two), "default")
    store.create(CONFIG_MAPS, _owned("grandchild", child), "default")
    store.delete(CONFIG_MAPS, "one", "default")
    refs = store.get(CONFIG_MAPS, "child", "default")["metadata"]["ownerReferences"]
    assert [ref["name"] for ref in refs] == ["two"]
    store.delete(CONFIG_MAPS, "two", "default")
    assert store.list(CONFIG_MAPS) == []


def test_an_object_of_an_owner_that_never_was_is_collected(store: ObjectStorage) -> None:
    ghost = {"metadata": {"name": "ghost", "uid": "none"}}
    store.create(CONFIG_MAPS, _owned("child", ghost), "default")
    assert store.list(CONFIG_MAPS) == []
    idle = ObjectStorage(collect=False)
    idle.create(CONFIG_MAPS, _owned("child", ghost), "default")
    assert names(idle.list(CONFIG_MAPS)) == ["child"]


def test_foreground_deletion_waits_for_those_that_block(store: ObjectStorage) -> None:
    owner = store.create(CONFIG_MAPS, {"metadata": {"name": "owner"}}, "default")
    held = _owned("held", owner, blockOwnerDeletion=True)
    held["metadata"]["finalizers"] = ["a.dev/b"]
    store.create(CONFIG_MAPS, held, "default")
    store.create(CONFIG_MAPS, _owned("free", owner), "default")
    store.delete(CONFIG_MAPS, "owner", "default", options=DeleteOptions("Foreground"))
    assert names(store.list(CONFIG_MAPS)) == ["held", "owner"]
    store.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, "default")
    assert store.list(CONFIG_MAPS) == []


def test_a_priority_class_gives_its_value_to_pods(store: ObjectStorage) -> None:
    made = store.create(PODS, pod("x", priorityClassName="system-node-critical"), "default")
    assert made["spec"]["priority"] == 2_000_001_000
    with pytest.raises(StatusError, match="no PriorityClass with name none was found"):
        store.create(PODS, pod("y", priorityClassName="none"), "default")


def test_apply_drops_what_its_manager_no_longer_names(store: ObjectStorage) -> None:
    def apply(manager: str, data: Obj) -> Obj:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}
        return store.patch(CONFIG_MAPS, "x", body, "default", content=APPLY, options=WriteOptions(manager=manager))

    apply("one", {"a": "1", "b": "1"})
    apply("two", {"b": "1", "c": "1"})
    assert apply("one", {})["data"] == {"b": "1", "c": "1"}
    with pytest.raises(StatusError, match=r'conflict with "two": \.data\.c'):
        apply("one", {"c": "2"})
    store.patch(CONFIG_MAPS, "x", {"data": {"c": "3"}}, "default", options=WriteOptions(manager="hand"))
    with pytest.raises(StatusError, match=r'conflict with "hand" using v1: \.data\.c'):
        apply("two", {"c": "1"})


def test_null_in_a_map_of_texts_is_the_empty_text(store: ObjectStorage) -> None:
    """As Go reads it: `labels: {sakkara.group: }` bears the label."""
    store.create(CONFIG_MAPS, {"metadata": {"name": "g", "namespace": "default", "labels": {"a": None, "b": "c"}}})
    assert store.get(CONFIG_MAPS, "g", "default")["metadata"]["labels"] == {"a": "", "b": "c"}
