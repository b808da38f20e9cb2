"""One homogeneous gang over several domains to a proved optimum. exact.py is the entry point, solver.py solves."""
