"""Operations on assignments, which know nothing of capacity that others use.

assignment_parts  splits and merges assignments
resize            an elastic job that grows or shrinks: what stays, what is still to be placed
on_hosts          restricts a request to some hosts, or to all others
pins              adds hosts to assignments
"""
