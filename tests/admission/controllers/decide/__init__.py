"""The scheduling loop."""
