"""What ends a build on purpose."""


class BuildError(Exception):
    """The build cannot go on. The message says what was found and what to do."""
