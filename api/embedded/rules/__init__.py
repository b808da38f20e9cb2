"""Defaults and validation that the API server itself has for single kinds."""
