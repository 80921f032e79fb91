"""Where models come from: a Python package, a model hub, an address, a file on this machine."""
