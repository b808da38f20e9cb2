"""The property that what is let through binds: gangs and clusters drawn by a seed.

`drawn.py` draws manifests; `driver.py` submits them to a stage and judges what became of them; `filters.py` is a plain model of
kube-scheduler's filters for the engine alone.
"""
