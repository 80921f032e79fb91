"""Load on servers with OpenAI's interface, and what their answers take."""
