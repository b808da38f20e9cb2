"""The pure engine: values in, decisions out. No IO, no clock, no log; time comes in as `now`, ties break by name."""
