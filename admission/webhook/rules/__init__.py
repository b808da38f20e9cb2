"""What all rules share: errors, formats, topology requests, defaults of a managed job.

review_rules, lookups                 the enabled rules (from the settings); the cached objects
fields, formats                       errors in the API server's wording; names, selectors, taints
template, pods                        pod templates of jobs and of Workloads
annotations, placement_annotations    topology requests; constraints, refinements, profile, moves
placement, exclusive_topology         topology requests of pods and gangs; exclusive topologies of JobSet and LeaderWorkerSet
jobs, defaults, schedulers, gates     what all kinds of job have in common
spare_hosts                           the rule of a flavor
elastic                               what elastic jobs may not request
gangs, gang_pods                      gangs, Sakkara groups, and their pods
"""
