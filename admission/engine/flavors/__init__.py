"""Which flavor each pod set would use: eligible flavors, free quota, and the result of the attempt."""
