"""Template of a method that an external program trains, in any language."""
