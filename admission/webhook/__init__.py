"""The admission webhook: judges and completes objects before they are stored; stateless, every replica answers.

Read in this order: `review` (one AdmissionReview in, one answer out) and `endpoints` (which kinds, and what each asks).

    jobs, defaults           what all kinds of job have in common; job, jobset: the kinds; template: their pod templates
    annotations              topology requests; placement_annotations: constraints, relaxation, profile, backfill
    pod, gangs, gang_pods    plain pods; gangs, Sakkara groups, and their existing pods; placement: topology requests of both
    deployment, sets         a Deployment's pods; StatefulSets and LeaderWorkerSets (statefulset, leaderworkerset)
    workloads, pods          Workloads, the templates in them, their status (workload_status); gates: admission gates
    queues, flavors, elastic queues and cohorts; flavors and topologies; elastic quotas
    fields, formats          errors in the API server's words; names, selectors, taints
    owners, notices          owners that have to be read; the event on an object whose kind nobody manages
    rules, lookups           what is on (from the settings); what may be looked up; patch: the answer's JSON patch

All of these are pure, and so is `conversion`: objects in another version. `app` builds the process, `server` answers requests,
`handshakes` accepts connections and speaks TLS, `connection_limits` bounds how many are open,
`certificate_authority` plans certificates and `certs` keeps them.
"""
