"""The embedded server over HTTP.

http, routes        the REST API; its paths and parameters
listing, stream     lists and watches
discovery           groups, versions, resources and health
tls                 certificates of the server
"""
