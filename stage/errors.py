"""The one way a stage says that its input is wrong."""

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # Ctrl-C, as shells say it: 128 + SIGINT
EXIT_REQUEUE = 75  # BSD's EX_TEMPFAIL: "try again"; the Slurm scripts requeue on it


class UsageError(Exception):
    """Bad input of the user's. The message is one line: which file, key or record, what was expected, what to do."""
