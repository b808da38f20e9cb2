"""Sakkara's ConfigMaps, which describe trees of nodes and groups of pods, and the results written back to them.

`trees` gives the ledger its levels; `groups` and `terms` make gangs of the pods, which pods/gangs.py plans and `unit` shapes;
`reporter` reports errors of a ConfigMap. `output` and the modules beside it write the results.
"""
