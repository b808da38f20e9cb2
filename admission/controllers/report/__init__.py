"""What users and operators read: reasons, explanations, metrics.

wait_reasons                     why a Workload waits, in its status; an event on its pod
explainer                        what would admit it
gauges, queue_totals             gauges and totals of queues
capacity_gauges                  capacity of flavors and domains
lifecycle_metrics, first_series  metrics of a Workload's life; series that begin at 0
fair_share_status, decision_log  shares in the status of queues; one line of log for a decision
turns                            bounded work for many objects, in turns
"""
