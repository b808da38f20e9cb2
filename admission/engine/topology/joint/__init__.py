"""Placement of several pod sets at once: which pod sets fit into one domain together, and which domain holds each."""
