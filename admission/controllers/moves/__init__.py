"""Moves running workloads to other places so that a waiting one gets its domain (`controller.moves`).

`move_controller.py` is the entry: it says for which waiting workload to move, and when. `topology_moves.py` does
so for what a Topology asks for. `planning.py` computes a plan (engine/moves) in turns, and `executor.py` carries it out: it
takes the places, then writes the moves. `movable.py` knows whether any workload may be moved, `move_log.py` how many were moved
today, and `places.py` ends the holds of places. `take_over.py` resumes the plans that `unfinished.py` finds in the statuses.

A move is safe however it is interrupted. The new place is charged in the ledger before anything is written, and beside the old
one: the mover's pods count where they are until they have ended. One write gives the Workload its new assignment and the
condition `stowage.dev/Moving`, with quota and admission kept. The job controller then stops the job, sets the condition to
False once the job is at rest, and starts it at the assignment (jobs/workload_plan.py). If a process is killed in between, the
status says what is left to do. The place of the waiting workload is held in memory alone; a process that takes over holds it
again, before its first cycle.
"""
