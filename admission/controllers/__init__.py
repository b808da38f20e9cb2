"""The acting edge of the controller process: from the watch to the ledger, from decisions to the API server.

views, feed                  what is seen of the cluster; the ledger and the queues kept in step with it
scheduler, desk, admitting   the loop; what it decides with; admissions written. waits, explaining: why others wait
workloads, lifecycle         what is due about each Workload outside of the cycle. conditions: its steps
evictor, evictions, removals who has to leave, and why. nodes, repairs: whose node has failed
queues, activity, status     what queues show. honoured: what of them has no effect
gauges, lives, tally, shares figures
jobs/, pods/                 how jobs, pods, groups and gangs start and stop. actions, writing: what both do to Workloads
elastic/, sakkara/           elastic quotas; ConfigMaps of groups and trees
"""
