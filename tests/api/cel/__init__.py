"""The evaluator of CEL."""
