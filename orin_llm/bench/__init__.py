"""Measuring: workloads on our engine, and on stock llama.cpp beside it in a process of its own."""
