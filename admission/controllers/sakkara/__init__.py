"""Reads Sakkara's ConfigMaps, which describe node trees and pod groups, and writes the results back to them.

`reporter` reports errors of a ConfigMap; `output` and its neighbours write the results. controllers/watch/sakkara_trees.py
gives the ledger the trees' levels; pods/sakkara_groups.py and its neighbours turn groups into gangs.
"""
