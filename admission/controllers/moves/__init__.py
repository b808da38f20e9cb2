"""Moves running workloads to other places so that a waiting one gets its domain (`controller.moves`).

feature           moves as a feature of the controller
move_controller   the entry: for which waiting workload to move, and when
topology_moves    the same for what a Topology asks for
planning          computes a plan (engine/features/moves) in turns
executor          takes the places of a plan, then writes its moves
movable           whether any workload may be moved at all
budgets           how many moves the ClusterQueues may still make
move_log          the moves of the last 24 hours
places            the places that are held for waiting workloads, and when each hold ends
take_over         resumes the plans of the previous leader
unfinished        finds these plans in the statuses
first_series      series that begin at 0

A move is safe however it is interrupted. The new place is charged in the ledger before anything is written, and beside the old
one: the mover's pods count where they are until they have ended. One write gives the Workload its new assignment and the
condition `stowage.dev/Moving`, with quota and admission kept. The job controller then stops the job, sets the condition to
False once the job is at rest, and starts it at the assignment (jobs/plan/workload_plan.py). If a process is killed in between,
the status says what is left to do. The place of the waiting workload is held in memory alone; a process that takes over holds
it again, before its first cycle.
"""
