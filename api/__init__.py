"""What exists: the resources as types, access to the API server (`api.kube`), the embedded one (`api.fake`).

names                          every label, annotation, gate, condition and reason
workloads, queues, topology    Kueue's kinds; groups: PodGroups, elastic: ElasticQuotas, sakkara: its ConfigMaps
pods, meta, errors             the little of Pods and Nodes that is read; what all objects have; the tree of errors
assignment, requests           where pods go, in its compact form; what a pod set asks of the topology
constraints, quantity, labels  readers of small languages, as is duration; merge: patches
schema                         limits of the types, for their CRDs
"""
