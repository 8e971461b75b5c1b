"""Where jobs run. All executors run the same worker and are interchangeable."""
