"""The embedded API server: the Kubernetes REST API in one process, for the demo, quick tests, faults and `simulate`.

Read in this order: `store` (the server without HTTP), `change` (the steps of one write), `complete` and `rules/` (defaults
and validation), `table` and `watch` (versions, history, events), `admission` (calls to webhooks), `http` (requests), `server`
(all of it as one object). `workers/` has stand-ins for controllers, scheduler and kubelet.

tests/integration/test_api_*.py run against it and against the real server. It lacks: CEL rules of CRDs, RBAC, most validation
of built-in fields, OpenAPI and table output, metadata.managedFields, conversion webhooks, create by PUT, quotas, expiry of
Events, and the finalizer on CRDs. A new CRD is served at once, and garbage collection happens within the write that triggers
it.
"""
