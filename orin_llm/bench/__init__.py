"""Measuring: our engine, and stock llama.cpp beside it in a process of its own."""
