"""How well a model does: texts, importance matrices, perplexity, comparisons."""
