"""IO: requests, informers, reconcile queues and the life of a process. Knows kinds by name only, decides nothing."""
