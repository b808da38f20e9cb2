"""Terms of pods about other pods: required pod affinity and anti-affinity, and topology spread with DoNotSchedule.

counts   counts all pods by place
tally    counts those that one term selects
audit    counts again and compares
placed   the nodes that a pod may use
within   separates the pods of one gang
even     spreads them
"""
