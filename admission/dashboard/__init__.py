"""The dashboard: a fourth process with read-only rights, off by default; also `stowage dashboard` on this machine.

app.py                     assembles it for a cluster, or for this machine's user
server.py                  HTTP: authentication, static files, dispatch, the stream of changes; stream.py: its clients
routes.py                  the table of routes; answers.py: their models; openapi.py: their document
tools.py                   the routes as tools of MCP; mcp_server.py: their server, by the SDK; mcp_endpoint.py: over HTTP
viewer.py                  what a user may see, by the cluster's own rights
dashboard.py               what can be asked; queues.py, rows.py, host_answers.py: the answers
cluster.py                 informers, ledger and queues, kept as the controller keeps them
trees.py, tree.py          the trees of flavors in columns; placements.py: what runs where
questions.py               explanations and what-if, in a forked copy of the process
asgi.py                    an ASGI application, as the SDK is one, behind aiohttp
page/, static/             the page's sources (TypeScript), and its built files
"""
