"""Defaults and validation that the API server itself has for single kinds.

base        the base class of a kind's rules
pods        Pods: defaults, the status of a new pod, which fields may change
podspec     defaults of a PodSpec, in pods and templates
jobs        batch/v1 Jobs
jobsets     JobSets, as JobSet's own webhook has them
cluster     namespaces, secrets, priority classes, CRDs, webhook configurations
"""
