"""StatefulSets and LeaderWorkerSets, which are admitted by groups of pods.

sets                 their controller
setplan              the due actions for one set
setactions           these actions as values
set_metadata         owners, labels and annotations of their Workloads
set_slices           resizes a set while it runs
orphaned_pods        a set that is deleted without its pods
pods_without_group   tells why a pod waits that belongs to no set
"""
