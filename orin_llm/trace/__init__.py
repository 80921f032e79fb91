"""What happened in one run, moment by moment: as a trace, as a picture, and by a profiler."""
