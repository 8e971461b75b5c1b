"""A method by supervised learning."""
