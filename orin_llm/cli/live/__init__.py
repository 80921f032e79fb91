"""The live view of `orin-llm monitor`: what is shown (plain functions), and the Textual app."""
