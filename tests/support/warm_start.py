"""Commands in processes of their own that need not load torch first.

A server loads the large packages once, and forks itself for each command. What a command is given
is its own: arguments, folder, environment variables, output. Only what Python reads when it starts
cannot differ, and who needs that starts an ordinary process.
"""

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import imitbench

# What commands spend their first seconds on, beside the modules of this package. Nothing that
# starts threads, and nothing that reads environment variables which a test may set, as
# huggingface_hub does.
PRELOADED = (
    "duckdb",
    "gymnasium",
    "mujoco",
    "pyarrow.parquet",
    "pydantic",
    "seals",
    "stable_baselines3",
    "torch.fx.experimental.symbolic_shapes",  # the first backward() loads it
)
_READ_AT_START = ("COVERAGE", "LC_", "LANG", "LD_", "MKL_", "OMP_", "PYTHON", "TZ")


class WarmStart:
    """A server of commands, which lives as long as the process that made it."""

    def __init__(self):
        ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(its.fileno())],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._socket = ours
        self._answers = ours.makefile()
        self._given = _read_at_start(os.environ)

    def can_run(self, environment):
        """Whether a command with these variables is what it would be in a process of its own."""
        return _read_at_start(environment) == self._given

    def run(self, module, arguments, cwd, environment):
        """Runs `python -m MODULE ARGUMENTS…`.

        Returns:
            The exit code, negative for a signal, and what it wrote to stdout and stderr.
        """
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            request = {
                "module": module, "arguments": arguments, "cwd": str(cwd),
                "environment": environment, "out": str(out), "err": str(err),
            }  # fmt: skip
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            answer = self._answers.readline()
            if not answer:
                raise RuntimeError(f"the server of commands died: {self._process.wait()}")
            return json.loads(answer), out.read_text(), err.read_text()

    def close(self):
        """Ends the server."""
        self._answers.close()
        self._socket.close()
        self._process.wait()


def _read_at_start(environment):
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _serve(connection):
    own = pkgutil.walk_packages(imitbench.__path__, "imitbench.")
    names = [module.name for module in own if "templates" not in module.name]
    for name in (*PRELOADED, *names):
        if not name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(name)
    gc.freeze()  # so that its collections leave memory shared
    with connection.makefile("rb") as requests:
        for line in requests:
            request = json.loads(line)
            pid = os.fork()
            if pid == 0:
                connection.close()
                _become(request)
            _, status = os.waitpid(pid, 0)
            connection.sendall(json.dumps(os.waitstatus_to_exitcode(status)).encode() + b"\n")


def _become(request):
    """Does in a forked process what a new one would do; does not return."""
    for number, name in ((1, "out"), (2, "err")):
        opened = os.open(request[name], os.O_WRONLY | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    sys.path[0] = request["cwd"]
    sys.argv = [request["module"], *request["arguments"]]
    code = 0
    try:
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        # As Python ends: threads are waited for, exit functions called, buffers written.
        import atexit
        import threading

        threading._shutdown()
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
