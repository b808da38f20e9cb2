"""When does a waiting workload start? Forecasts from run times, for all waiting workloads at once.

run_times.py   learned run times of past workloads, by LocalQueue, owner and name pattern
inputs.py      what a forecast needs of ledger and queues, as values
hosts.py       the hosts of the flavors with a topology, and the places that gangs need there
starts.py      forecast: replays the queues with drawn run times; an interval for each workload
agenda.py      what ends next, and what waits next, in a replay
draws.py       the drawn run times
rooms.py       the room on hosts and in domains during a replay
calibration.py how often past intervals held, and how much wider the next ones must be
teller.py      the interval that a workload is told
"""
