"""The usage that foreign pods and admitted workloads are charged for on the trees' nodes and domains.

capacity            capacity and usage on the trees of all flavors
allocations         matches bound pods with admissions
assumed             pods that are admitted but not bound yet
entries             the usage of an admission, by domain
footprint           the same as arrays
away                frees what many workloads use, inside a context
ranked              admitted workloads in the order of their eviction
simulated_removal   evicts in a simulation, and undoes it
audit               recomputes the usage
"""
