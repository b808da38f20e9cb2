"""The acting edge of the controller process: feed (watch to ledger), jobs, workloads, scheduler."""
