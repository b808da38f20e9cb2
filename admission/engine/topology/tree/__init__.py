"""One flavor's live tree: domains by level, the order of their names, and which nodes a pod may use."""
