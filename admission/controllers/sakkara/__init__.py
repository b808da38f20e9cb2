"""Sakkara's ConfigMaps: trees of nodes and groups of pods that are told in them, and what is told back.

`trees` gives the ledger its levels; `groups` and `terms` make gangs of the pods (pods/gangs.py plans them, as `unit` shapes
them); `reporter` says what is wrong with a ConfigMap.
"""
