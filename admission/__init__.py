"""Which workloads start, and where: the webhook, the reconcilers, the admission loop; `admission.engine` inside is pure."""
