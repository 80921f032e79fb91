"""The model store: fetching, listing, checking and describing GGUF models."""
