"""A whole cluster on this machine, for the demo, the test suites and the benchmarks.

embedded    a cluster in this process, with Stowage installed
install     installs the manifests of config/
processes   the three processes as children
ports       free ports for them
"""
