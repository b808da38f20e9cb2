"""The HTTPS server of the webhook: bounded requests in, reviews out.

server, server_limits, worker_thread  connections and their limits; the thread that answers
handlers, review, patch               one AdmissionReview in, one response out; its JSON patch
conversion                            objects between versions
metrics                               requests and their durations
"""
