"""What the engine knows of a cluster, without a controller: loaded read-only from a live one, from files, from a snapshot.

For `stowage explain`, `simulate` and `snapshot`. The way in is the controller's own: the same decoding, the same feed
(controllers/feed.py), the same requeueing (engine/scheduler_state.py), for jobs the webhook's defaults and the adapters.
Nothing here writes to a cluster, and nothing decides: that is the engine's.

    world.py      the World itself
    objects.py    objects by kind, each taken in as the controller would; maps.py: Sakkara's ConfigMaps
    rules.py      what of the controller's settings holds
    states.py     what Workloads and groups say of themselves beyond what the engine takes
    cluster.py    from_cluster: lists of a live cluster
    files.py      from_files: documents to a world with a clock of its own; builder.py does it
    documents.py  what stands in files: documents, lists, their kinds; given.py sorts them by kind
    jobs.py       from a job to its Workload; sets.py: StatefulSets, LeaderWorkerSets; units.py: pods, groups, gangs
    makers.py     the pods of Deployments and their like; elastic.py: the queues of elastic quotas; stored.py: defaults
    snapshot.py   Snapshot, capture and from_snapshot: the engine's inputs as one deterministic JSON; records.py: its records
"""
