"""Generates CRDs from the types: `python -m hack.crds` writes config/crd, `--check` reports differing files.

Limits and CEL rules are declared with the types (`api.schema` has the helpers); `kinds` declares how kubectl shows each kind;
`structural` converts a type to the schema form that the API server requires. Nothing here knows a single field.
"""
