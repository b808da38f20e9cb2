"""Stand-ins for the controllers of Jobs, JobSets and volumes, for kube-scheduler and kubelet, driven by the store's clock.

base        the base class: follows the store's events and processes each affected key once per step
driver      drives all workers until nothing is due
jobs        the Job controller
jobpods     the pods of a Job
indexes     completed indexes of an Indexed Job, as text
jobsets     the JobSet controller
children    the child Jobs of a JobSet
scheduler   kube-scheduler
fitting     its filters, with their messages
kubelet     kubelets: nodes become Ready, bound pods run and end
volumes     the controllers of volumes
"""
