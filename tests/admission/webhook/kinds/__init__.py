"""The rules of each kind."""
