"""The command line for people: `stowage demo | simulate | explain | snapshot`. `main` has names and options.

explain, explanation   why a workload waits; how that looks
simulate, snapshot     what would happen; what the controller sees, as a file
connection             a live cluster, read as kubectl does
demo, story            the demo; its jobs as data. display, observe: how it looks, what a user sees of it
embedded, install      a whole cluster in this process; what config/ describes put into it
processes, ports       the three processes as children; free ports for them
"""
