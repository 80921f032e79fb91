"""What this machine has: processor, memory, GPU. Read from the system, never by asking CUDA."""
