"""Template of a method whose policy is a class of its own, and has a memory."""
