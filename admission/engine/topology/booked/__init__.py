"""Who takes what where: nodes, foreign pods and admitted workloads as they are booked on the trees."""
