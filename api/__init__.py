"""What exists: the resources as types, the access to the API server (`api.kube`), the embedded API server (`api.fake`)."""
