"""Opens the topology gate of admitted pods, in batches. `gate_plan` is pure; `gate_controller` sends its patches."""
