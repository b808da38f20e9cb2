"""Pods and nodes, as they are read."""
