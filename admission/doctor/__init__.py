"""Checks of an installation and its cluster, for `stowage doctor`: what is wrong, why it matters, how to fix it.

checks/                 one module per subject; `checks.ALL` lists the declarations
finding                 a check's declaration, and what it finds
report                  runs checks on a view
view                    the cluster as the checks see it
expected                what the shipped manifests install
read, question          reads a view from the API server, in bounded pages; its other requests
discovery, unmanaged    custom kinds; their objects that name a queue
pod_facts, pod_owners   what is kept of a bound pod; the controllers above it
belonging               which bound pods belong to no admitted workload
devices                 what nodes have, and would have if their devices were there
waiting_pods            what keeps a pod of Stowage from running
mended_settings         a settings file without its invalid settings
preflight               what stands in the way of a migration from Kueue
migrating_kinds         what a migration does to the jobs of each kind
"""
