"""What the processes share: their frame, settings, pages, and who may read these.

process              event loop, logs, signals, health server, orderly shutdown
environment          settings that all processes share
unsupported_keys     keys of Kueue's Configuration that Stowage does not have
leader               leader election by a Lease
health, forked       the HTTP server for probes and metrics; documents made in a forked copy
access, identities   asks what others may do, and whose a token is
logs, tracing        logs; traces
steps, lag           the event loop; how late it runs
garbage              short collections of garbage
"""
