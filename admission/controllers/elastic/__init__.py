"""Elastic quotas, translated into queues of one cohort and kept so."""
