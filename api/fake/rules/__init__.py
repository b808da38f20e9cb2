"""What the API server itself decides about single kinds: defaults, what may be created, what may change."""
