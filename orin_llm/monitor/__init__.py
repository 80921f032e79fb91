"""A machine and the engines on it, watched over time: snapshots, figures, alerts, recordings."""
