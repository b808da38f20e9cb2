"""The embedded API server: the same REST face in one process, for the demo, the quick tests, faults and `simulate`.

Read in this order: `store` (the whole without HTTP), `change` (the way of one write), `complete` and `rules/` (what the
server judges), `table` and `watch` (versions, history, events), `admission` (our webhooks, asked over TLS), `http`
(requests), `server` (all of it as one object). The stand-ins for the controllers, the scheduler and the kubelet are in
`workers/`.

Held to the real server by tests/integration/test_api_*.py, which run against both. Left out, and the real server's
own: CEL rules of CRDs, RBAC, validation of built-in fields that we do not lean on (a new pod's or a status's), OpenAPI and
table output, metadata.managedFields, conversion webhooks, create by PUT, quotas, Event expiry, the finalizer on CRDs. A new
CRD is served at once, and owner references are collected within the write that makes them due.
"""
