"""The exact solver for one homogeneous gang over several domains; exact.py calls it."""
