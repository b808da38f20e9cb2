"""The dashboard: a fourth process with read-only rights, off by default; also `stowage dashboard` on this machine.

app                      assembles it for a cluster, or for this machine's user
viewer                   what a user may see, by the cluster's own rights
dashboard                what can be asked; the answers are in the next four
queues, rows             queues and cohorts; workloads as rows of a list
host_answers, questions  hosts; explanations and what-if
cluster                  informers, ledger and queues, kept as the controller keeps them
trees, tree              the trees of flavors in columns
placements, leaving      what runs where; places that workloads are leaving
stream                   the stream of changes
serve/                   the dashboard over HTTP
mcp/                     the routes as tools of the Model Context Protocol

page/ has the sources of the page (TypeScript), static/ its built files.
"""
