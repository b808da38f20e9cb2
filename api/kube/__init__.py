"""Access to the API server: requests, informers, reconcile queues and the lifecycle of a process. Makes no decisions."""
