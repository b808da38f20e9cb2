"""The command line for users: `stowage demo | simulate | explain | snapshot | ...`. `main` declares names and options.

__main__             `python -m admission.cli`
main                 the command, with the names and options of its subcommands
plugin               `kubectl stowage`, and its completion
connection           access to a live cluster, with kubectl's rules
explain              why a workload waits, and what would admit it
explanation          how that is printed
strangers            the object of an unmanaged kind, for `explain`
simulate             a simulation of the queue
snapshot             the controller's state, as a file
defrag/              moves that would give a gang its domain
topology             Topology and ResourceFlavors from labels of nodes
doctor               what is wrong with an installation
support_bundle       one archive for a question
uninstall, version   removes Stowage; versions of command, API server and Stowage
jobkind              tests a JobKind on a sample
dashboard, mcp       the dashboard on this machine; the tools for assistants
demo/                the demo
local_cluster/       a whole cluster on this machine
"""
