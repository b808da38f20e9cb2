"""What nobody may change who did not write it: marks, owners, parts of jobs, starts.

marks, marked_pods                    labels and annotations that say of which Workload a pod is
owners, parts                         owners of a job or pod; parts of a job that is admitted as a whole
starts, kept                          who starts what waits; what a manifest takes back that is applied again
reserved_queues                       names of queues that belong to elastic quotas
"""
