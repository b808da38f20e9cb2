"""A cluster's state for the engine without a controller, read from a live cluster, from files or from a snapshot.

For `stowage explain`, `simulate` and `snapshot`. Objects are read as in the controller: the same decoding, the same feed
(controllers/watch/feed.py), the same requeueing (engine/scheduler_state.py), and for jobs the webhook's defaults and the
adapters. Nothing here writes to a cluster, and the engine makes all decisions.

    world.py             the World itself
    objects.py           objects by kind, fed to the engine as by the controller; sakkara_maps.py: Sakkara's ConfigMaps
    rules.py             the controller's settings that affect a world
    workload_facts.py    facts in the status of Workloads and groups that the engine does not read
    cluster.py           from_cluster: lists of a live cluster
    files.py             from_files: documents to a world with its own clock; builder.py builds it
    documents.py         YAML documents, lists, their kinds; input_objects.py sorts them by kind
    jobs.py              the Workload of a job; sets.py: of StatefulSets, LeaderWorkerSets; pod_units.py: of pods, groups, gangs
    template_pods.py     pods of Deployments, ReplicaSets and StatefulSets that files describe by template only
    elastic.py           the queues of elastic quotas; api_defaults.py: fields that the API server would set
    snapshot.py          Snapshot, capture, from_snapshot: the engine's inputs as one deterministic JSON document
    snapshot_records.py  the records of a snapshot
"""
