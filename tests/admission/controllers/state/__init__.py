"""A Workload's conditions and its next step."""
