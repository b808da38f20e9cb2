"""The pure engine: values in, decisions out. No IO, no clock, no log; time comes in as `now`, ties break by name.

model/                the inputs as frozen values
convert/              API objects to these values
decision, reasons     the outputs: Admit, Preempt, Wait, Evict, Reject; the reasons of a wait
ledger/               what is used and held: nodes, usage and admissions
journal               the inverse operations that roll it back
scheduler_state       ledger and pending queues, which each event updates
quota/                the cohort tree and its arithmetic
queue/                the pending workloads
flavors/              the flavor of each pod set
topology/             placement on the tree
preemption/           the workloads to evict
cycle/                the admission cycle
features/             the features, one line each of those that decide with the cycle
decide                the cycle as the running system makes it
requests              the placement requests of a workload at present
spare_quota           places for pods, and what is held beside them, for which there is quota too
topology_relaxation   relaxation of a required level with time
expected_start        the words for the start of a waiting workload
explain/              why a workload waits
listed, pauses        names in a sentence; the pause of a long computation
"""
