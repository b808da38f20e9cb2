"""Reads Sakkara's ConfigMaps, which describe node trees and pod groups, and writes the results back to them.

feature             what it adds to the controller process
groups              the ConfigMaps that describe groups
reporter            reports errors of a ConfigMap
output_controller   writes the results of groups
output              computes them
output_record       their input: the present state and earlier results
output_status       the status of a group and its message
output_members      the fields of member pods that they depend on
output_paths        the tree path of a member
output_ranks        the ranks of members
output_times        the scheduler's decision times

controllers/watch/sakkara_trees.py gives the ledger the trees' levels; pods/gangs turns groups into gangs.
"""
