"""Opens the topology gate of admitted pods, in batches. `plan` is pure; `controller` sends its patches."""
