"""`make chart` writes the Helm chart `config/chart` from the kustomize tree `config/`; `make check` reports drift.

An object is declared once, below `config/`. `kustomize.py` reads it with its patches, `templates.py` replaces the fields that
`values.py` declares, and `document.py` writes templates.
"""
