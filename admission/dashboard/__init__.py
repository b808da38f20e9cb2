"""The dashboard: a fourth process with read-only rights, off by default; also `stowage dashboard` on this machine.

app                      assembles it for a cluster, or for this machine's user
viewer                   what a user may see, by the cluster's own rights
dashboard                what can be asked; the answers are in the next four
queues, rows             queues and cohorts; workloads as rows of a list
host_answers, questions  hosts; explanations and what-if
cluster                  informers, ledger and queues, kept as the controller keeps them
trees, tree              the trees of flavors in columns
placements, leaving      what runs where; places that workloads are leaving
server, stream           HTTP: authentication, dispatch; the stream of changes
unread                   bounds the answers that clients have not read yet
static_files             the built page
routes, answers          the table of routes; their models
openapi, encoding        the document of the routes; answers as JSON
tools                    the routes as tools of MCP
mcp_server               their server, by the SDK
mcp_endpoint, asgi       the same over HTTP; an ASGI application behind aiohttp

page/ has the sources of the page (TypeScript), static/ its built files.
"""
