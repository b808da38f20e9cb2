"""The dashboard over HTTP.

server          authenticates, routes and answers
routes          the table of routes
answers         their models
forecast        the expected starts
openapi         their document
encoding        answers as JSON
static_files    the built page
unread          bounds the answers that clients have not read yet
"""
