"""A cluster's state for the engine without a controller, read from a live cluster, from files or from a snapshot.

For `stowage explain`, `simulate` and `snapshot`. Objects are read as in the controller: the same decoding, the same feed
(controllers/watch/feed.py), the same requeueing (engine/scheduler_state.py), and for jobs the webhook's defaults and the
adapters. Nothing here writes to a cluster, and the engine makes all decisions.

world              the World itself
objects            objects by kind, fed to the engine as by the controller
sakkara_maps       Sakkara's ConfigMaps
rules              the controller's settings that affect a world
workload_facts     facts in the status of Workloads and groups that the engine does not read
learned            the run times that a controller has learned
explaining         finds a workload, and explains it
cluster            from_cluster: lists of a live cluster
files, builder     from_files: documents to a world with its own clock; builds it
documents          YAML documents, lists, their kinds
input_objects      sorts them by kind
jobs               the Workload of a job
sets, pod_units    those of StatefulSets and LeaderWorkerSets; of pods, groups, gangs
template_pods      pods of Deployments, ReplicaSets and StatefulSets that files describe by template only
elastic_quotas     the queues of elastic quotas
api_defaults       fields that the API server would set
snapshot           Snapshot, capture, from_snapshot: the engine's inputs as one deterministic JSON document
snapshot_records   the records of a snapshot
"""
