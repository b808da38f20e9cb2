"""When does a waiting workload start? Forecasts from run times, for all waiting workloads at once.

run_times          learned run times of past workloads, by LocalQueue, owner and name pattern
run_time_records   the same as records that can be stored
inputs             what a forecast needs of ledger and queues, as values
hosts              the hosts of the flavors with a topology, and the places that gangs need there
starts             forecast: replays the queues with drawn run times; an interval for each workload
agenda             what ends next, and what waits next, in a replay
draws              the drawn run times
rooms              the room on hosts and in domains during a replay
calibration        how often past intervals held, and how much wider the next ones must be
teller             the interval that a workload is told
wording            the sentence that it is told, and what that says
"""
