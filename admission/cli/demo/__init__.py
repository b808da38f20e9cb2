"""`stowage demo`: a small datacenter on the embedded API server, with jobs.

demo       the command
story      the datacenter and the jobs, as data
observe    its view of the API server
display    its output
"""
