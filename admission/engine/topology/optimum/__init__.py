"""One homogeneous gang over several domains to a proved optimum: exact.py asks, solver.py answers."""
