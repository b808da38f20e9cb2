"""The admission cycle: which workloads start now, and what reserves, orders or limits their starts.

cycle                      one cycle, in numbered steps
feature                    what a feature adds to it: hooks
solve                      searches flavors and domains: the question that every decision asks
outcomes                   the end of a head's turn: it starts, waits, or reserves
nominate, nomination       flavors, domains and victims of a head; the same as a value
fewer_pods                 fewer pods than requested
head_order, tournament     the order of the heads; the next one under fair sharing
borrowers, settled_heads   heads that are not searched again before their answer may have changed
head_hints                 which change could help a head that waits
kept_quota                 quota that a refused head keeps from borrowers
reservations               the capacity reservations of one cycle
repeated_preemption        how often a workload may evict the same victim
together                   workloads that start together with others
late_joiners               late pods of a gang
spare_hosts                spare hosts of running workloads
flavor_spares              spare hosts of flavors
held_capacity              what workloads may draw on, and hold beside their quota
second_pass                places for pods that lost their node
placed_requests            the requests of a running workload with its present places
admission_attempt          whether a workload would be admitted if it were a head
"""
