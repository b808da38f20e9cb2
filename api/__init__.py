"""The resources as types, the client of the API server, and the embedded API server.

names/                  labels, annotations, gates, conditions and reasons
workloads               Workload: a job in the queue, with its pod sets, and in the status its admission
queues                  ClusterQueue, LocalQueue, Cohort and WorkloadPriorityClass
topology                Topology and ResourceFlavor
topology_request        what a pod set requests of the topology
topology_assignment     the domains of a pod set, in the compact form of the status
assignment              converts that form to plain lists of domains, and back
admission_checks        AdmissionCheck
advance_reservations    AdvanceReservation: nodes that are held from one time until another
groups                  PodGroup, of the two API groups that manifests use
elastic_quotas          ElasticQuota, likewise
sakkara                 Sakkara's ConfigMaps: trees of nodes, and groups of pods
job_kinds               JobKind: a declaration of a kind of job
backfill                the message of the condition stowage.dev/Backfilled
annotations/            what jobs, queues and flavors say in annotations
pod/                    pods and nodes: the fields that are read, and what follows from them
reading                 decodes Workloads, sharing equal parts
conversion              kueue.x-k8s.io from v1beta1 to v1beta2, and back
meta, errors            metadata and conditions of all objects; the error classes
schema, limits          the limits that types declare for their CRDs; checks an object against them
merge                   JSON merge patches
text/                   small languages and bounds of text that users write
cel/                    an evaluator of CEL
kube/                   requests, informers and reconcile queues
process/                what the processes share
embedded/               the embedded API server
"""
