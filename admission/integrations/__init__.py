"""One adapter per job kind, all behind one small protocol (`base`) and one registry (`registry`).

base                 the protocol, and helpers of the adapters
elastic              kinds and jobs that may be resized while they run
registry             the kinds that a process admits
job_kinds            keeps them in step with the cluster's JobKinds
job_kind_errors      validates JobKinds
job, jobset          batch/v1 Job; JobSet
declared/            kinds that data describes
pods/                pods that are queued by themselves, in groups and in gangs
sets/                kinds that are admitted group by group
paths                values at paths in decoded objects
podset               merges what admission adds into a template, and restores it
ranks                ranks of pods in pod-set groups
exclusive            exclusive placement of JobSet and LeaderWorkerSet
names                names of Workloads
owners, ownership    whether Stowage starts an owner; whether it really created the object
children             whether a job's controller really created a pod or object
unmanaged            the notice about objects of unmanaged kinds

The folder kinds/ has the declarations.
"""
