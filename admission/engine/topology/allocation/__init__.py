"""What is allocated where: nodes, foreign pods and admitted workloads on the trees."""
