"""Access to the API server: requests, informers and reconcile queues. Makes no decisions.

client                  one method per verb, with responses decoded into the requested type
resources               the resources that Stowage uses
decode                  JSON to types, with the object and field that failed
transport               sends requests with limits, timeouts, tokens, retries and metrics
retry, backoff          when a request may be repeated; after how long
connection              the session with the server
endpoint                where the server is, TLS and tokens
service_account         the endpoint as a pod has it
kubeconfig              the endpoint as a kubeconfig has it
credential_plugin       a program that asks a kubeconfig's plugin for credentials
stream                  the wire format of a watch
served                  which API versions the server serves
partial                 the client of a user who may not list everything
settings                settings of API access, as values
informers/              local, current copies of resources
reconcile               a keyed queue and its workers
events                  records Events
turns                   divides long work of a task
clock                   time as an argument
metrics, owned_series   metrics of API access; series that go with their queue
"""
