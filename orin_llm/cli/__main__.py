"""`python -m orin_llm.cli`, for a checkout whose scripts are not on PATH."""

from orin_llm.cli.entry import start

start()
