"""What the engine knows of a cluster, without a controller: loaded read-only from a live one, from files, from a snapshot.

For `stowage explain`, `simulate` and `snapshot`. Objects are read as the controller reads them: the same decoding, the
same feed (controllers/feed.py), the same requeueing (engine/scheduler_state.py), and for jobs the webhook's defaults
and the adapters. Nothing here writes to a cluster or decides: the engine decides.

    world.py             the World itself
    objects.py           objects by kind, each taken in as the controller would; sakkara_maps.py: Sakkara's ConfigMaps
    rules.py             the controller's settings, as far as a world depends on them
    workload_facts.py    what the status of Workloads and groups says beyond what the engine takes from it
    cluster.py           from_cluster: lists of a live cluster
    files.py             from_files: documents to a world with a clock of its own; builder.py does it
    documents.py         YAML documents, lists, their kinds; input_objects.py sorts them by kind
    jobs.py              the Workload of a job; sets.py: of StatefulSets, LeaderWorkerSets; pod_units.py: of pods, groups, gangs
    template_pods.py     the pods of Deployments, ReplicaSets and StatefulSets that stand in files only as templates
    elastic.py           the queues of elastic quotas; api_defaults.py: fields that the API server would have filled in
    snapshot.py          Snapshot, capture, from_snapshot: the engine's inputs as one deterministic JSON
    snapshot_records.py  the records of a snapshot
"""
