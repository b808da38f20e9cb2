"""Translates elastic quotas into queues of one cohort.

feature            what it adds to the controller process
quota_controller   reconciles the queues with their translation, and writes the quotas' status
quotas             the elastic quotas of both API groups, and what all of them share
translation        the queue of an elastic quota
resource_quotas    compares an elastic quota with the ResourceQuotas of its namespace
"""
