"""A worker whose program is a module written by a test."""

import importlib
from dataclasses import dataclass


@dataclass(frozen=True)
class ModuleWorker:
    module: str

    def main(self, arguments):
        return importlib.import_module(self.module).main(arguments)

    def after_death(self, job, detail):
        return importlib.import_module(self.module).after_death(job, detail)
