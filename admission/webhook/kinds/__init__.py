"""The rules of each kind.

job, jobset, declared, declared_rules jobs
pod, deployment, sets, scaled         plain pods; sets whose pods queue
statefulset, leaderworkerset          the two kinds of sets that are ordered
queues, flavors, elastic              queues and cohorts; flavors and topologies; elastic quotas
workloads, workload_status            Workloads
"""
