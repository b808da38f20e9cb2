"""The admission webhook: completes and validates objects before they are stored. It is stateless, so every replica answers.

Read in this order: `server/review` (one AdmissionReview in, one response out) and `endpoints` (the kinds and their rules).

    rules/                       what all rules share: errors, formats, topology requests, defaults of a managed job
    guards/                      what nobody may change who did not write it: marks, owners, parts of jobs, starts
    kinds/                       the rules of each kind
    kind_rules, review_request   the form of each kind's rules; the request that they get
    endpoints, rights            each kind with its rules; the rights that some changes need
    owner_reads, notices         owners that are read from the API server; the event on an object of an unmanaged kind
    server/                      the HTTPS server
    app                          builds the process

All but `app`, `owner_reads` and `server/` are pure, and so are `server/review`, `server/patch` and `server/conversion`.
`admission.serving` keeps the connections and the certificate.
"""
