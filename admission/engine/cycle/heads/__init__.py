"""The heads of the queues: which one is next, and which need no new search.

head_order        the order of the heads
tournament        the next head under fair sharing
borrowers         heads that borrow, which are searched again after an admission that concerns them
settled_heads     heads that are not searched again before their answer may have changed
head_hints        which change could help a head that waits
"""
