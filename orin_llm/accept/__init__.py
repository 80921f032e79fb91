"""The check before delivery: seven indicators, each measured, judged and kept as evidence."""
