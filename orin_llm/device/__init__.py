"""The accelerator and what the build makes of it. Read from the system, never by asking CUDA."""
