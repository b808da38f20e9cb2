"""What users and operators read: reasons, explanations, metrics.

wait_reasons, waiting_pods, explainer why a Workload waits, and what would admit it
gauges, capacity_gauges, queue_totals metrics and totals of queues
lifecycle_metrics, first_series       metrics of a Workload's life
fair_share_status, decision_log       shares in the status of queues; one line of log for a decision
turns                                 bounded work for many objects, in turns
"""
