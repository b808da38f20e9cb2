"""Quota of queues: the cohort tree and its arithmetic, charging of pods, and fair shares.

tree                how much each queue may use, and uses, by name
cohorts             the arithmetic of one node of the tree
charging            what a pod is charged where that differs from its requests
bound               charges the pods that run
reserved            the quota that holds of nodes charge
fairness            fair shares
usage_by_priority   a queue's usage by priority
"""
