"""The command line: flags, terminal input and output; the work is done by the packages below it."""
