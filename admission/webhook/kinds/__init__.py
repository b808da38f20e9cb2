"""The rules of each kind.

reviewed_jobs                jobs that are started as a whole, whatever their kind
job, jobset                  batch/v1 Job; JobSet
declared, declared_rules     kinds that data describes; their rules in the webhook's configuration
pod, deployment              plain pods; Deployments, whose pods queue
sets, scaled                 what sets have in common; kinds that a JobKind declares by their scale
statefulset, leaderworkerset  the two kinds of sets that are ordered
queues, flavors              queues and cohorts; flavors and topologies
elastic_quotas               elastic quotas
groups                       PodGroups, ConfigMaps of Sakkara's groups, JobKinds
workloads, workload_status   Workloads, and their status
"""
