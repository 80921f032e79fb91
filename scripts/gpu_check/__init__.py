"""Builds, checks and times everything on a machine with an NVIDIA GPU: scripts/gpu_check.sh."""
