"""The machine this process runs on, and its system: processor, memory, files, programs, signals.

Standard library only: the build imports this package before any dependency is installed.
"""
