"""The embedded API server: the Kubernetes REST API in one process, for the demo, quick tests, faults and `simulate`.

Read in this order: `store`, `change`, `complete` and `rules/`, `table` and `watch`, `admission`, `http`, `server`.

store                   the server without HTTP: kinds, objects, versions, watches
change                  the steps of one write
request                 the values of a write: target, options, points at which webhooks are called
decode, complete        before webhooks: prunes and defaults the body; after them: system metadata, validation
patch, strategic        JSON patch and merge patch; strategic merge patch
apply, fields           server-side apply; the leaf fields that it compares
deletion, gc            deletion of one object; the garbage collector
binding                 the pod subresource that schedulers call
meta, status            metadata as the server manages it; errors as `Status` objects
kinds, schema           built-in kinds and CRDs; their structural schemas
rules/                  defaults and validation of single kinds
table, watch            the objects of one kind with their history; one watch of it
selectors               label and field selectors
calls, admission        writes with webhooks in between; calls to webhooks
http, routes            the REST API; its paths and parameters
listing, stream         lists and watches over HTTP
discovery               groups, versions, resources and health
server, tls             all of it as one object; its certificates
faults                  injects faults, by rates and a seed
workers/                stand-ins for controllers, scheduler and kubelet

tests/integration/test_api_*.py run against it and against the real server. It lacks: CEL rules of CRDs, RBAC, most validation
of built-in fields, OpenAPI and table output, metadata.managedFields, conversion webhooks, create by PUT, quotas, expiry of
Events, and the finalizer on CRDs. A new CRD is served at once, and garbage collection happens within the write that triggers
it.
"""
