"""The resources as types, the client of the API server (`api.kube`), and the embedded API server (`api.embedded`).

names                          labels, annotations, gates, conditions and reasons
workloads, queues, topology    Kueue's kinds; groups: PodGroups, elastic: ElasticQuotas, sakkara: its ConfigMaps
job_kinds                      JobKind, which declares a kind of job
pods, meta, errors             the read fields of Pods and Nodes; metadata of all objects; the error classes
assignment, requests           topology assignments in compact form; topology requests of pod sets
constraints, quantity, labels  parsers of small languages, as is duration; merge: patches
schema                         limits of the types, for their CRDs
"""
