"""Metrics of the controller, the webhook and the dashboard, by subject; a process imports those that it sets.

controller    cycles, decisions, writes
moves         moves of running workloads, and their plans
forecasts     forecasts of starts
lives         a Workload's life: counts and durations of its stages
queues        gauges of ClusterQueues, LocalQueues and Cohorts
spare_hosts   spare hosts of workloads and flavors
capacity      capacity of flavors and their domains
reviews       reviews of the webhook
certificates  certificates of servers
"""
