"""Tuned settings of engines: what they are for, their files, and which of them fit here."""
