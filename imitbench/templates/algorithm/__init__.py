"""Template of a method that uses supervised learning."""
