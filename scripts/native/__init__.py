"""Builds orin_llm/_native: llama.cpp patched and static, with our C++ on top.

Used by setup.py and by the scripts; nothing here is installed.
"""
