"""The usage that foreign pods and admitted workloads are charged for on the trees' nodes and domains."""
