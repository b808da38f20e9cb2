"""The contract of both API servers about deletion: finalizers, preconditions, owners (test_api_contract.py)."""

from __future__ import annotations

import pytest

from tests.integration.contract import (
    Server,
    config_map,
    job,
    labelled,
    refused,
    widget,
)

# ---- deletion, finalizers, owners


async def test_finalizers_hold_an_object(widgets: Server) -> None:
    held = widget("x")
    held["metadata"]["finalizers"] = ["stowage.dev/hold"]
    await widgets.post("widgets", held)
    ending = await widgets.delete("widgets/x")
    assert ending.body["metadata"]["deletionTimestamp"]
    assert ending.body["metadata"]["generation"] == 2
    more = await widgets.patch("widgets/x", {"metadata": {"finalizers": ["stowage.dev/hold", "stowage.dev/new"]}})
    refused(more, 422, "Invalid", "metadata.finalizers: Forbidden: no new finalizers can be added")
    assert (await widgets.patch("widgets/x", {"metadata": {"finalizers": None}})).status == 200
    assert (await widgets.get("widgets/x")).status == 404


async def test_preconditions_of_a_deletion(server: Server) -> None:
    await server.post("configmaps", config_map("x"))
    wrong = await server.delete("configmaps/x", {"preconditions": {"uid": "another"}})
    refused(wrong, 409, "Conflict", "the UID in the precondition (another) does not match the UID in record")
    done = await server.delete("configmaps/x")
    assert (done.body["kind"], done.body["status"]) == ("Status", "Success")
    assert done.body["details"]["name"] == "x"


async def _family(server: Server) -> None:
    owner = await server.post("configmaps", config_map("owner"))
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.body["metadata"]["uid"]}
    await server.post("configmaps", config_map("child", ownerReferences=[{**ref, "blockOwnerDeletion": True}]))


@pytest.mark.parametrize(
    ("policy", "child"),
    [("Background", False), ("Foreground", False), ("Orphan", True)],
    ids=["background", "foreground", "orphan"],
)
async def test_dependents_follow_their_owner(server: Server, policy: str, child: bool) -> None:
    await _family(server)
    await server.delete("configmaps/owner", {"propagationPolicy": policy})

    async def settled() -> bool:
        left = await server.get("configmaps/child")
        owner = await server.get("configmaps/owner")
        if not child:
            return left.status == owner.status == 404
        return owner.status == 404 and "ownerReferences" not in left.body["metadata"]

    await server.eventually("the collector is done", settled)


async def test_a_deleted_job_leaves_its_pods_by_default(server: Server) -> None:
    answer = await server.post("jobs", job("x"))
    ref = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": answer.body["metadata"]["uid"]}
    await server.post("configmaps", config_map("child", ownerReferences=[ref]))
    ending = await server.delete("jobs/x")
    assert ending.body["metadata"]["finalizers"] == ["orphan"]

    async def orphaned() -> bool:
        return "ownerReferences" not in (await server.get("configmaps/child")).body["metadata"]

    await server.eventually("the child is an orphan", orphaned)


async def test_a_collection_is_deleted_by_selector(server: Server) -> None:
    await labelled(server)
    assert (await server.delete("pods?labelSelector=x")).status == 200
    assert [item["metadata"]["name"] for item in (await server.get("pods")).body["items"]] == ["b"]
