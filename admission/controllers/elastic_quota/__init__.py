"""Translates elastic quotas into queues of one cohort."""
