"""Files of a repository of submissions."""
