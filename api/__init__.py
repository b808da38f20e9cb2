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
elastic                 ElasticQuota, likewise
sakkara                 Sakkara's ConfigMaps: trees of nodes, and groups of pods
job_kinds               JobKind: a declaration of a kind of job
backfill                the message of the condition stowage.dev/Backfilled
reading                 decodes Workloads, sharing equal parts
conversion              kueue.x-k8s.io from v1beta1 to v1beta2, and back
requests, constraints   topology requests from annotations; the language of placement constraints
moves                   annotations about moves on jobs, queues and priority classes
defragmentation         annotations about moves on Topologies
spare_hosts             the annotation stowage.dev/spare-hosts of ResourceFlavors
pods                    the fields of Nodes, Pods and pod templates that are read
pod_requests            the effective requests of a pod
pod_terms               its required affinity and anti-affinity to other pods
exclusive               what only one pod of a node can have, such as a host port
devices, volumes        fields of dynamic resource allocation; fields of volumes, claims and storage classes
meta, errors            metadata and conditions of all objects; the error classes
schema, limits          the limits that types declare for their CRDs; checks an object against them
merge                   JSON merge patches
quantity, duration      Kubernetes' quantities; Go's durations
labels, label_text      label selectors, as objects and as text
manifests               the only reader of YAML
untrusted_text          bounds text that users write
cel, cel_operations     an evaluator of CEL; its operators and functions
cel_authorizer          CEL's `authorizer`
cel_budget              bounds the work of an evaluation
kube/                   requests, informers, reconcile queues and the lifecycle of a process
embedded/               the embedded API server
"""
