"""What exists: the resources as types, access to the API server (`api.kube`), the embedded one (`api.fake`)."""
