"""Text around the model: chat templates, conversations, stop strings, UTF-8 over token borders.

Nothing here knows the engine: what needs a tokenizer takes one as an argument.
"""
