"""From the cluster to the engine: informers, projections of what they hold, and the feed of ledger and queues.

cluster_view, kinds, watched                 the watched kinds, their informers and copies; how a kind is declared
feed                                         what each change means for the engine
cycle_due                                    when the next cycle is due
projection, local_copies                     the parts of objects that are kept
feature, view_feature                        what a feature adds to the controller process, and to the view
affected, workload_conversion                the workloads that a change concerns; Workloads as the engine reads them
resources, runtime_classes                   effective requests of pod templates
slices, slice_index                          slices of jobs that are resized
node_amounts, past_usage, unreserved_usage   sums that grow with each change
contradictions                               terms of a job that contradict its request
sakkara_trees                                trees that ConfigMaps describe
caches                                       views that include the controllers' own writes at once
rounds, in_steps                             long work in small steps
volumes/, devices/                           volumes and devices of nodes
advance_reservations/                        nodes that AdvanceReservations hold
"""
