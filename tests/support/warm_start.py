"""Runs commands in separate processes that do not have to import torch.

A server imports the large packages once, and forks itself for each command. Each command has its
own arguments, working directory, environment variables and output. Only settings that Python reads
at its start cannot differ; commands that need them run in an ordinary process.

Workers of pytest-xdist share the imports: the first one starts the server, which forks itself for
the requests of each.
"""

import contextlib
import ctypes
import gc
import hashlib
import importlib
import json
import os
import pkgutil
import resource
import runpy
import select
import socket
import subprocess
import sys
import tempfile
import traceback
import weakref
from pathlib import Path

import imitbench

# Packages that commands import in their first seconds, in addition to modules of this package.
# None of them starts threads or reads environment variables that a test may set, as
# huggingface_hub does.
PRELOADED = (
    "duckdb",
    "gymnasium",
    "mujoco",
    "pandas",  # imported by Arrow as soon as it is given lists
    "pyarrow.parquet",
    "pydantic",
    "seals",
    "stable_baselines3",
    "torch.fx.experimental.symbolic_shapes",  # imported by the first backward()
)
_READ_AT_START = ("COVERAGE", "LC_", "LANG", "LD_", "MKL_", "OMP_", "PYTHON", "TZ")


class WarmStart:
    """A server of commands, which exits after the processes that use it.

    Args:
        environment: Its variables.
        group: Processes that name the same group, and have the same settings, share the imports.
    """

    def __init__(self, environment, group=None):
        self._given = _read_at_start(environment)
        self._socket, its = socket.socketpair()
        with its, contextlib.ExitStack() as opened:
            ends = [its]
            if group is not None:
                listener = opened.enter_context(socket.socket(socket.AF_UNIX))
                settings = json.dumps([group, self._given], sort_keys=True).encode()
                # A name in the kernel, not a file: it is gone with the server.
                name = b"\0imitbench-" + hashlib.sha256(settings).digest()
                try:
                    listener.bind(name)
                except OSError:  # another process of the group was first
                    with contextlib.suppress(OSError):  # has ended, as has its server
                        listener.connect(name)
                        self._socket = listener.dup()
                        ends = []
                else:
                    listener.listen()
                    ends.append(listener)
            if ends:
                self._process = subprocess.Popen(
                    [sys.executable, __file__, *(str(end.fileno()) for end in ends)],
                    pass_fds=[end.fileno() for end in ends],
                    stdin=subprocess.DEVNULL,
                    # Arrow's own allocator reserves a gigabyte at once, which `bounds` would count.
                    env={**environment, "ARROW_DEFAULT_MEMORY_POOL": "system"},
                )
        self._answers = self._socket.makefile()

    def can_run(self, environment):
        """Whether a command with these variables behaves as in an ordinary process."""
        return _read_at_start(environment) == self._given

    def run(self, module, arguments, cwd, environment, bounds=None):
        """Runs `python -m MODULE ARGUMENTS…`.

        Args:
            bounds: Processor time in seconds, and bytes of memory beyond those of the server; the
                command, and each process that it starts, fails if it needs more.

        Returns:
            The exit code, negative for a signal, and the output on stdout and stderr.
        """
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            request = _request(module, arguments, cwd, environment, out, err) | {"bounds": bounds}
            code = self._ask(request | {"wait": True})
            return code, out.read_text(), err.read_text()

    def start(self, module, arguments, cwd, environment, out, err):
        """Starts `python -m MODULE ARGUMENTS…`, with file descriptors of this process as output."""
        ours = Path("/proc", str(os.getpid()), "fd")
        request = _request(module, arguments, cwd, environment, ours / str(out), ours / str(err))
        return self._ask(request | {"wait": False})

    def ended(self, pid):
        """Returns the exit code of a process from `start`, or `None` while it runs."""
        return self._ask({"ended": pid})

    def _ask(self, request):
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        answer = self._answers.readline()
        if not answer:
            raise RuntimeError("the server of commands died")
        return json.loads(answer)

    def close(self):
        """Stops the server, unless others use it."""
        self._answers.close()
        self._socket.close()


def _request(module, arguments, cwd, environment, out, err):
    return {
        "module": module, "arguments": arguments, "cwd": str(cwd),
        "environment": environment, "out": str(out), "err": str(err),
    }  # fmt: skip


def _read_at_start(environment):
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _prepare():
    own = pkgutil.walk_packages(imitbench.__path__, "imitbench.")
    names = [module.name for module in own if "templates" not in module.name]
    for name in (*PRELOADED, *names):
        if not name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # a package of an extra that is not installed
                importlib.import_module(name)
    from imitbench.store import database, database_access

    database_access._expected(database.SCHEMA)  # a cache that each command would fill
    # A fork takes as long as there is memory.
    gc.collect()
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
    gc.freeze()  # keeps memory shared after garbage collections
    for finalizer in weakref.finalize._registry:
        finalizer.atexit = False  # torch would take back each of its kernels in each command


def _serve_each(listener, connections):
    """Serves each connection in a process of its own, until none is left."""
    serving = set()
    while connections or serving:
        for connection in connections:
            pid = os.fork()
            if pid == 0:
                listener.close()
                _serve(connection)
                os._exit(0)
            connection.close()
            serving.add(pid)
        serving = {pid for pid in serving if os.waitpid(pid, os.WNOHANG)[0] == 0}
        ready = select.select([listener], [], [], 1.0)[0]
        connections = [listener.accept()[0] for _ in ready]


def _serve(connection):
    with connection.makefile("rb") as requests:
        for line in requests:
            answer = _answer(json.loads(line), connection)
            connection.sendall(json.dumps(answer).encode() + b"\n")


def _answer(request, connection):
    if "ended" in request:
        pid, status = os.waitpid(request["ended"], os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None
    # Opened here, so that who asked can close its own ends as soon as it has the answer.
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOCTTY
    outputs = [os.open(request[name], flags) for name in ("out", "err")]
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(request, outputs)
    for opened in outputs:
        os.close(opened)
    if not request["wait"]:
        return pid
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _become(request, outputs):
    """Makes a forked process behave like a new one; does not return."""
    for number, opened in enumerate(outputs, start=1):
        os.dup2(opened, number)
        os.close(opened)
    if request.get("bounds"):
        seconds, size = request["bounds"]
        # A fork starts with no processor time, and with all memory of its parent.
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        data = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (data + size, data + size))
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    del sys.path[0]  # the folder of this script; the command leaves out the current one
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
        # As at the end of Python: wait for threads, call exit functions, flush buffers.
        import atexit
        import threading

        threading._shutdown()
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _prepare()
    first, *listening = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    if listening:
        _serve_each(*listening, [first])
    else:
        _serve(first)
