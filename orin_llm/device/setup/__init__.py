"""Setting a Jetson up for the toolkit: changes that are planned, applied, recorded and reverted."""
