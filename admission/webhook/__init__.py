"""The admission webhook: judges and completes objects before they are stored; stateless, every replica answers.

Read in this order: `review` (the endpoints, one AdmissionReview in, one answer out); `defaults` and `jobs` with `job` and
`jobset` (the kinds of job), `annotations` (topology requests); `workloads`, `queues`, `flavors`; `fields` and `formats`
(errors in the API server's words). All of these are pure. `server` speaks TLS; `authority` plans certificates and
`certs` keeps them.
"""
