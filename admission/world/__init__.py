"""What the engine knows of a cluster, without a controller: loaded read-only from a live one, from files, from a snapshot.

For `stowage explain`, `simulate` and `snapshot`. The way in is the controller's own: the same decoding, the same feed
(controllers/feed.py), the same rules of waking (engine/books.py), for jobs the webhook's defaults and the adapters. Nothing
here writes to a cluster, and nothing decides: that is the engine's.

    world.py      the World itself
    objects.py    objects by kind, each taken in as the controller would
    cluster.py    from_cluster: lists of a live cluster
    documents.py  what stands in files: documents, lists, their kinds
    jobs.py       from a job to its Workload
    files.py      from_files: all of it together, with a clock of its own
    snapshot.py   Snapshot, capture and from_snapshot: the engine's inputs as one deterministic JSON
"""
