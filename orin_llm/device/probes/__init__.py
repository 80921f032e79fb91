"""Short trials of the machine: CUDA, memory traffic under load, the disk, code in the build."""
