"""The admission webhook: completes and validates objects before they are stored. It is stateless, so every replica answers.

Read in this order: `review` (one AdmissionReview in, one response out) and `endpoints` (the kinds, and the rules of each).

        jobs, defaults           what all kinds of job have in common; job, jobset: the kinds; template: their pod templates
        annotations              topology requests; placement_annotations: constraints, relaxation, profile, backfill
    pod, gangs, gang_pods    plain pods; gangs, Sakkara groups, and their pods; placement: topology requests of both
        deployment, sets         a Deployment's pods; StatefulSets and LeaderWorkerSets (statefulset, leaderworkerset)
        workloads, pods          Workloads, their pod templates, their status (workload_status); gates: admission gates
        queues, flavors, elastic queues and cohorts; flavors and topologies; elastic quotas
        fields, formats          errors in the API server's wording; names, selectors, taints
        owners, notices          owners that are read from the API server; the event on an object of an unmanaged kind
        rules, lookups           the enabled rules (from the settings); the cached objects; patch: the response's JSON patch

All of these are pure, and so is `conversion`, which converts objects between versions. `app` builds the process,
and `server` answers requests; `admission.serving` keeps its connections and its certificate.
"""
