"""The controller process: informers feed the ledger, cycles decide, and writers update the API server.

state/             a Workload's conditions and its next step: values in, values out
watch/             from the cluster to the engine: informers, projections, the feed of ledger and queues
write/             what writes Workloads: a status, an admission, an eviction
report/            what users and operators read: reasons, explanations, metrics
decide/            the scheduling loop, and what follows from its decisions
forecasts/         forecasts of starts and what they learn from
moves/             moves of running jobs that make room for a gang
nodes/, queues/    failed nodes; the status of queues
jobs/, pods/       start and stop jobs, pods, groups and gangs
sakkara/           ConfigMaps of groups and trees
elastic_quota/     elastic quotas
job_kinds          kinds of jobs that are declared while the controller runs
options            the settings that several rooms share
"""
