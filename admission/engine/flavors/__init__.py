"""Which flavor each pod set would use: what suits it, what its quota leaves, and what comes of the attempt."""
