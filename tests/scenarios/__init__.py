"""The scenarios that must hold, told once and played on two stages: the embedded API server and the real control plane."""
