"""The fault guide: from what a user sees to what to look for and what to do."""
