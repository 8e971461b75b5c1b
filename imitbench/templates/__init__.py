"""Files that `imitbench init-algo` and `imitbench init-suite` copy; they run without changes."""
