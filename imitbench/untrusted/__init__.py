"""Everything from outside passes here: limits, ordinary files, bounded parsers, a child process."""
