"""Kueue's visibility API: the pending workloads of a queue in their order, so that kueuectl shows a workload's position.

An aggregated API (`visibility.kueue.x-k8s.io`, v1beta1 and v1beta2): the API server forwards requests over TLS and names their
user in headers. Off by default; `config/visibility` installs it, the controller process serves it.

app             assembles it from the controller's parts
server          HTTPS
front_proxy     whose requests these are
pending         the positions
api_documents   discovery and OpenAPI
"""
