"""Quota of queues: the cohort tree and its arithmetic, charging of pods, and fair shares."""
