"""The archive of `stowage support-bundle`: what it holds, and what is taken out of it.

redaction   takes secrets, tokens, values of variables and of annotations out of objects and texts. Pure
collect     reads the parts from the API server, in bounds
"""
