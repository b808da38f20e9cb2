"""Sakkara's ConfigMaps, which describe trees of nodes and groups of pods, and the results written back to them.

`reporter` reports errors of a ConfigMap; `output` and the modules beside it write the results. The trees give the ledger its
levels in controllers/sakkara_trees.py; pods/sakkara_groups.py and its neighbours make gangs of the groups.
"""
