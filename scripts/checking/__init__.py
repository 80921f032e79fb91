"""Runs the steps of a check and keeps what each found: for scripts that take minutes to hours."""
