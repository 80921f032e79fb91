"""The machine this process runs on: processor and memory, as far as a container may use them."""
