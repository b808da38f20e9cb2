"""How much each queue may use: the cohort tree and its arithmetic, what a pod counts for in it, and fair shares."""
