"""A local page on which a person demonstrates a task; what is kept becomes a data set."""
