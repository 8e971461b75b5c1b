"""An observer of sweeps for tests."""


class Recorder:
    """An observer that records events."""

    def __init__(self):
        self.events = []

    def planned(self, start):
        self.events.append(("planned", start.total, start.already_done))

    def started(self, runs):
        self.events += [("started", run.run_id) for run in runs]

    def finished(self, run, failure):
        self.events.append(("finished", run.run_id, failure and failure.phase))

    def stopping(self):
        self.events.append(("stopping",))
