"""Random failures on a real control plane, and an auditor: `auditor` judges, `watch` feeds it, `storm` makes the failures."""
