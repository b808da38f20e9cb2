"""CRDs from the types: `python -m hack.crds` writes config/crd, `--check` says which file drifted.

Limits and CEL rules stand next to the types (`api.schema` has the words); `kinds` says how kubectl shows each kind;
`structural` turns a type into the schema form that the API server asks for. Nothing here knows a single field.
"""
