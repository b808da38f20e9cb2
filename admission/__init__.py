"""Decides which workloads start, and where: webhook, controllers, admission cycle. `admission.engine` is pure.

__main__            `python -m admission webhook | controller | dashboard`
app, assembly       the controller process; its parts, each built by one function
settings            settings of the processes
kueue_settings      the sections that Kueue's Configuration has too
forecast_settings   the settings of forecasts
feature_gates       Kueue's feature gates
engine/             the pure engine: values in, decisions out
controllers/        informers feed the ledger, cycles decide, writers update the API server
webhook/            completes and validates objects before they are stored
integrations/       kinds of jobs
serving/            an HTTPS server for untrusted clients
visibility/         Kueue's visibility API
metrics/            metrics of the processes, by subject
dashboard/          the dashboard
cli/                the command `stowage`
doctor/             checks of an installation and its cluster
levels/             labels of topology levels on nodes
support/            the archive of `stowage support-bundle`
world/              a cluster's state for the engine, without a controller
simulation/         a world on virtual time
"""
