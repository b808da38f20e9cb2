"""Failed nodes and spare hosts."""
