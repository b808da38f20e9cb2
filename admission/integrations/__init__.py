"""One adapter per job kind, all behind one small protocol (`base`) and one registry (`registry`).

base                 the protocol, and helpers of the adapters
registry             the kinds that a process admits
job_kinds            keeps them in step with the cluster's JobKinds
job_kind_errors      validates JobKinds
job, jobset          batch/v1 Job; JobSet
declared             kinds that data describes
entries, paths       the paths of a JobKind in a job; values at paths
expressions          its CEL expressions
functions/           functions for kinds that have no path to their pod sets
referenced           objects that define the pods of jobs
parts                the objects that a job's own controller created for it
template_shape       checks that a pod template is one
writeback            a start's additions, as patches in the job
podset               merges what admission adds into a template, and restores it
ranks                ranks of pods in pod-set groups
exclusive            exclusive placement of JobSet and LeaderWorkerSet
sets                 the interface of kinds that are admitted group by group
statefulset          apps/v1 StatefulSet
leaderworkerset      LeaderWorkerSet
scaled               kinds that a JobKind declares by their scale
replica_groups       the groups of a set
pod, podgroup        queued pods; a pod or a group of pods as a unit
gang, gangplacement  the gang of a pod, in any dialect; its placement annotations
sakkara              what pods of a Sakkara group must have in common
names                names of Workloads
owners, ownership    whether Stowage starts an owner; whether it really created the object
children             whether a job's controller really created a pod or object
unmanaged            the notice about objects of unmanaged kinds

The folder kinds/ has the declarations.
"""
