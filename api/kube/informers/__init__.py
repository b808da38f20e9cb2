"""Local, current copies of resources by list and watch.

informer            keeps the copy of one resource, and recovers from all failures
store               the copy: objects by key, indexes, handlers
lazy_informer       starts when a caller asks for it
optional_informer   of a kind that may not be installed
watch_lag           how far a watch is behind
"""
