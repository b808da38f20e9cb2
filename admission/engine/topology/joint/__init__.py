"""Several pod sets at once: which of them fit into a domain together, and which domain takes which."""
