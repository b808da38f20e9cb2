"""Opens the topology gate of admitted pods, in batches. `gate_plan` is pure; `gate_controller` sends its patches.

__main__          `python -m ungater`
app               the process
settings          its settings
gate_controller   watches Workloads and pods, and opens gates
gate_plan         which pod goes to which domain
patches           the patch that opens a pod's gates
expectations      patches with an unknown outcome
adoption          adds the pod set label to pods that lack it
own_claims        pods that wait for their own claims
named             objects of which only the identity is kept
metrics           metrics, under the names that Kueue's dashboards query
"""
