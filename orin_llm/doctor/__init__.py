"""The checks of `orin-llm doctor`: what a machine has, against what the toolkit needs."""
