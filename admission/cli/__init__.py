"""The command line for users: `stowage demo | simulate | explain | snapshot`. `main` declares names and options.

explain, explanation   why a workload waits; how the command prints it
simulate, snapshot     a simulation of the queue; the controller's state, as a file
connection             access to a live cluster, with kubectl's rules
demo, story            the demo; its jobs as data. display, observe: its output; its view of the API server
embedded, install      a whole cluster in this process; installs the manifests of config/ into it
processes, ports       the three processes as children; free ports for them
"""
