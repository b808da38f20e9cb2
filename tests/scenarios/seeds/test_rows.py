"""Each row of docs/seeds.md has scenarios that play it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = ROOT / "tests/scenarios"
DOCUMENTS, PROMISES = "seeds/test_documents", "seeds/test_promises"
CAPACITY, GANGS, SAKKARA = "seeds/test_capacity_scheduling", "test_gangs", "test_sakkara"

ROWS: dict[str, tuple[tuple[str, str], ...]] = {
    # 000
    "pods with the labels `name` and `min-available` start together or not at all": (
        (DOCUMENTS, "test_000_pods_of_a_group_wait_for_min_available_and_start_together"),
    ),
    "a group starts with `min-available` pods, however many it has": (
        (GANGS, "test_the_minimum_of_a_gang_starts_and_the_rest_follows_when_there_is_room"),
        (GANGS, "test_pods_that_join_a_waiting_gang_do_not_keep_it_from_starting"),
    ),
    "two groups never hold half of the cluster each": (
        (DOCUMENTS, "test_000_two_groups_never_hold_half_of_the_cluster_each"),
    ),
    "a group that is not bound in time releases its place": (
        (GANGS, "test_a_gang_that_is_not_bound_in_time_goes_back_whole"),
        (GANGS, "test_no_member_runs_while_a_gate_of_somebody_else_holds_one_that_the_minimum_needs"),
    ),
    "a member that is lost after all have run": (
        ("test_lost_members", "test_a_lost_member_of_a_gang_that_has_run_ends_none_of_the_others"),
    ),
    "priority first, then the time of the first pod, then the UID of the group": (
        (GANGS, "test_gangs_and_plain_pods_of_one_queue_start_by_priority_then_by_time"),
    ),
    # 001
    "labels, a PodGroup object or annotations name the gang and its minimum": (
        (DOCUMENTS, "test_001_each_form_of_a_gang_starts_whole"),
    ),
    "a PodGroup is created for pods that have only labels": (
        (GANGS, "test_a_gang_in_each_dialect_gets_a_pod_group_that_goes_with_its_last_pod"),
    ),
    "a job of a parameter server and four workers waits for GPUs and then starts whole": (
        (DOCUMENTS, "test_001_a_tensorflow_job_of_a_parameter_server_and_four_workers"),
    ),
    "GangGroups start when each of their gangs can": ((DOCUMENTS, "test_001_a_gang_group_starts_when_each_gang_can"),),
    "match policies": ((PROMISES, "test_001_the_match_policy_says_which_pods_count_for_one_that_joins"),),
    "pods of a gang have one priority": (
        (GANGS, "test_a_pod_that_contradicts_its_gang_is_refused_with_the_name_of_another"),
    ),
    "`scheduleTimeoutSeconds`": ((DOCUMENTS, "test_001_a_gang_that_has_run_keeps_its_members_when_one_is_lost"),),
    # 002
    "the tree in a ConfigMap, in the namespace of `sakkara.topologyNamespace`": (
        (DOCUMENTS, "test_002_a_job_of_eight_is_packed_on_a_rack_and_spread_on_its_nodes"),
    ),
    "without a tree, the topology is flat": (
        (PROMISES, "test_002_without_a_tree_the_topology_is_flat_and_group_a_starts"),
    ),
    "a group in a ConfigMap; pods wait until it exists": (
        (DOCUMENTS, "test_002_a_job_of_eight_is_packed_on_a_rack_and_spread_on_its_nodes"),
        (SAKKARA, "test_pods_wait_until_their_config_map_exists"),
    ),
    "pack, spread, partitions, range and factor at each level, soft by default": (
        (PROMISES, "test_002_each_kind_of_constraint"),
        (SAKKARA, "test_story_a_two_partitions_on_separate_racks_each_packed_on_its_nodes"),
        (SAKKARA, "test_story_b_packed_on_one_server_with_two_to_four_on_each_of_its_nodes"),
        (SAKKARA, "test_eight_pods_on_racks_of_three_nodes"),
    ),
    "a constraint of a level that the tree lacks": (
        (PROMISES, "test_002_without_a_tree_the_topology_is_flat_and_group_a_starts"),
        (PROMISES, "test_002_a_hard_constraint_of_a_level_that_the_tree_lacks_keeps_the_group_waiting"),
    ),
    "`schedulerName: sakkara`": ((DOCUMENTS, "test_002_a_job_of_eight_is_packed_on_a_rack_and_spread_on_its_nodes"),),
    "placement, rank, status and times in the group's ConfigMap, labels on its pods": (
        ("test_sakkara_results", "test_a_group_reads_in_its_config_map_where_each_pod_is_and_which_rank_it_has"),
        (SAKKARA, "test_no_pod_of_a_group_goes_through_its_gate_before_it_bears_its_rank"),
    ),
    "priorities: groups are preempted as a whole": (
        ("test_sakkara_preemption", "test_a_group_evicts_whole_groups_of_lower_priority_the_least_that_suffice"),
        ("test_sakkara_preemption", "test_the_priority_of_a_config_map_stops_nobody_in_other_namespaces"),
        ("test_sakkara_preemption", "test_a_job_whose_group_is_evicted_runs_again_and_none_of_its_pods_has_failed"),
    ),
    # 003
    "levels in the flavor, `require-topology`, `prefer-topology` with a level or `auto`": (
        (DOCUMENTS, "test_003_required_and_preferred_levels_on_the_document_s_hierarchy"),
    ),
    "racks of one name in two blocks are two racks": (
        (DOCUMENTS, "test_003_required_and_preferred_levels_on_the_document_s_hierarchy"),
    ),
    "pods are created with the topology gate; the ungater assigns each to its domain, in batches of at most 1 s": (
        (DOCUMENTS, "test_003_required_and_preferred_levels_on_the_document_s_hierarchy"),
        ("test_scenarios", "test_4_gate_and_annotations_are_in_the_template_and_pods_are_created_gated"),
    ),
    "a new node makes a waiting workload start": (
        (DOCUMENTS, "test_003_required_and_preferred_levels_on_the_document_s_hierarchy"),
    ),
    "a flavor with a topology needs a node label; levels must exist": (
        (DOCUMENTS, "test_003_what_the_document_refuses_is_refused"),
        (DOCUMENTS, "test_003_required_and_preferred_levels_on_the_document_s_hierarchy"),
    ),
    "the early Workload form (`topologyRequest.policy`, `topologyRequest.level`)": (
        (DOCUMENTS, "test_003_what_the_document_refuses_is_refused"),
    ),
    "no cohorts and no preemption with topology": (
        ("test_preemption", "test_quota_that_was_lent_is_taken_back"),
        ("test_preemption", "test_a_gang_of_eight_gets_racks_and_only_those_in_them_go"),
    ),
    # 004
    "every pod of a namespace with an ElasticQuota counts, whatever creates it and whatever scheduler it names": (
        (CAPACITY, "test_statefulsets_and_jobs_of_the_namespace_go_by_it_as_well"),
        (CAPACITY, "test_the_jobs_of_a_jobset_and_their_pods_are_known_as_its_own"),
        (CAPACITY, "test_story_1"),
    ),
    "pods that ran before the ElasticQuota was created": (
        (CAPACITY, "test_pods_that_ran_before_the_quota_count_and_run_on"),
    ),
    "a LeaderWorkerSet without a queue name": (
        ("test_leaderworkerset", "test_groups_go_by_the_elastic_quota_of_their_namespace_whole"),
    ),
    "`max` bounds a namespace; unused `min` is lent": ((CAPACITY, "test_story_1"),),
    "within `min` lent quota is reclaimed; beyond it only workloads of the own namespace are preempted": (
        (CAPACITY, "test_story_1"),
        ("test_elastic_quota", "test_story_2_a_namespace_within_its_min_keeps_it"),
        (CAPACITY, "test_preemption_across_namespaces_is_for_what_is_guaranteed_alone"),
    ),
    "one ElasticQuota per namespace": (("test_elastic_quota", "test_a_namespace_has_one"),),
    "the sum of all `min` is within the cluster; `min` <= `max` <= `hard` of the ResourceQuota": (
        ("test_elastic_quota", "test_guarantees_beyond_the_capacity_are_reported"),
        ("test_elastic_quota", "test_a_max_above_a_resource_quota_is_reported"),
    ),
    "the ElasticQuota is deleted": (
        ("test_deleted_elastic_quota", "test_what_waits_for_a_quota_that_is_deleted_starts_without_one"),
    ),
    "stories 1 and 2, the examples of the sections about namespaces and nodes": (
        (CAPACITY, "test_story_1"),
        (CAPACITY, "test_story_2"),
        (CAPACITY, "test_preemption_across_namespaces_is_for_what_is_guaranteed_alone"),
        (CAPACITY, "test_the_known_limitation_is_none_here"),
    ),
    "limitation: no preemption across nodes": ((CAPACITY, "test_the_known_limitation_is_none_here"),),
}


def rows() -> Iterator[str]:
    """The first cell of each row but the headings."""
    for line in (ROOT / "docs/seeds.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split(" | ")]
        if line.startswith("| ") and cells[0] != "| behaviour":
            yield cells[0].removeprefix("| ")


def test_each_row_names_its_scenarios() -> None:
    assert list(rows()) == list(ROWS)


def test_each_scenario_exists() -> None:
    for named in ROWS.values():
        for module, name in named:
            text = (SCENARIOS / f"{module}.py").read_text()
            assert re.search(rf"^async def {name}\(", text, re.MULTILINE), (module, name)
