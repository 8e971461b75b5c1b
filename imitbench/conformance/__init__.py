"""Does a method keep to what the harness relies on? `imitbench check-algo` asks."""
