"""The HTTPS server of the webhook: bounded requests in, reviews out.

server, server_limits    connections and their limits
worker_thread            a thread for long answers
handlers, review, patch  one AdmissionReview in, one response out; its JSON patch
conversion               objects between versions
"""
