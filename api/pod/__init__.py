"""Pods and nodes: the fields that are read, and what follows from them.

pods           the fields of Nodes, Pods and pod templates
pod_requests   the effective requests of a pod
pod_terms      its required affinity and anti-affinity to other pods
exclusive      what only one pod of a node can have, such as a host port
labels         label selectors against labels
devices        fields of dynamic resource allocation
volumes        fields of volumes, claims and storage classes
"""
