"""Checks that a method satisfies the assumptions of the harness; `imitbench check-algo`."""
