"""The embedded API server: the Kubernetes REST API in one process, for the demo, quick tests, faults and `simulate`.

Read in this order: `store`, `writes/change`, `writes/complete` and `rules/`, `table` and `watch`, `admission`, `rest/http`,
`server`.

store              the server without HTTP: kinds, objects, versions, watches
writes/            one write, from the request body to the stored object
request            the values of a write: target, options, points at which webhooks are called
patch              JSON patch and merge patch
gc                 the garbage collector
meta, status       metadata as the server manages it; errors as `Status` objects
kinds, schema      built-in kinds and CRDs; their structural schemas
rules/             defaults and validation of single kinds
table, watch       the objects of one kind with their history; one watch of it
selectors          label and field selectors
calls, admission   writes with webhooks in between; calls to webhooks
rest/              the server over HTTP
server             all of it as one object
faults             injects faults, by rates and a seed
workers/           stand-ins for controllers, scheduler and kubelet

tests/integration/test_api_*.py run against it and against the real server. It lacks: CEL rules of CRDs, RBAC, most validation
of built-in fields, OpenAPI and table output, metadata.managedFields, conversion webhooks, create by PUT, quotas, expiry of
Events, and the finalizer on CRDs. A new CRD is served at once, and garbage collection happens within the write that triggers
it.
"""
