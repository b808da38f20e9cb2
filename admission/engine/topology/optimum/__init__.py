"""The exact algorithm for one homogeneous gang that needs several domains. exact.py is the entry point of the package."""
