"""The archive of `stowage support-bundle`: what it contains, and what is removed from it.

redaction   removes secrets, tokens, values of variables and of annotations from objects and texts. Pure
collect     reads the parts from the API server, in bounds
"""
