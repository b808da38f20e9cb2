"""Queues single pods and groups of pods: a Workload for each, gates removed on admission, pods ended on eviction.

pod_controller       reconciles a unit: a pod, a group or a gang
pod_plan, gang_plan  compute the due actions for it
compose              composes its Workload
workload_updates     keeps the Workload in step with gated pods
start                the patch that starts a gated pod
replacements         the condition WaitingForReplacementPods
actions, executor    the actions of a plan; performs them
pod_indexes          pods and Workloads by unit
predicates           how urgent a change is
surplus_pods         ends pods beyond what was admitted
marked_namespaces    marks namespaces where jobs without a queue name are managed
gangs/               gangs of all dialects
sets/                StatefulSets and LeaderWorkerSets
"""
