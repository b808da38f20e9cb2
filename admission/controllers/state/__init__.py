"""A Workload's conditions and its next step: values in, values out; nothing here asks the API server.

condition_table                       who sets and clears each condition of a Workload, and which state follows which
conditions, active_conditions         transitions of a Workload's conditions; the condition Active of queues
moving                                a job that starts anew at another place
admission_context, checks             what a step depends on; what the admission checks of a queue say
lifecycle, timeouts, evictions        the next step, when it is due, and the record of evictions
actions                               what a job or its pods are told to do
waiting_pods                          the pod of a Workload of one pod, and why it waits
unsupported_fields                    fields of queues and Workloads that have no effect
"""
