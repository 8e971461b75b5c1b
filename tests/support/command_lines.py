"""Command lines of documents, changed so that they take seconds."""


def with_options(arguments, options):
    """Returns the arguments with these options, which replace values that are there already."""
    changed = list(arguments)
    for flag, value in options.items():
        if flag in changed:
            changed[changed.index(flag) + 1] = value
        else:
            changed += [flag, value]
    return changed
