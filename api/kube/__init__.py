"""Access to the API server: requests, informers, reconcile queues and the lifecycle of a process. Makes no decisions.

client                  one method per verb, with responses decoded into the requested type
resources               the resources that Stowage uses
decode                  JSON to types, with the object and field that failed
transport               sends requests with limits, timeouts, tokens, retries and metrics
retry, backoff          when a request may be repeated; after how long
connection              kubernetes-asyncio's configuration and session
certificates            removes the files that it writes
stream                  the wire format of a watch
served                  which API versions the server serves
partial                 the client of a user who may not list everything
settings                settings of API access, as values
access, identities      asks what others may do, and whose a token is
informer                a local copy of one resource by list and watch
store, watch_lag        that copy; how far its watch is behind
lazy_informer           starts when a caller asks for it
optional_informer       of a kind that may not be installed
reconcile               a keyed queue and its workers
events                  records Events
turns                   divides long work of a task
clock                   time as an argument
metrics, owned_series   metrics of API access; series that go with their queue
leader                  leader election by a Lease
process, environment    the common frame of the processes; the settings that they share
unsupported_keys        keys of Kueue's Configuration that Stowage does not have
health, forked          the HTTP server for probes and metrics; documents made in a forked copy
logs, tracing           logs; traces
steps, lag, garbage     the event loop, how late it runs, and short collections of garbage
"""
