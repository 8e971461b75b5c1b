"""Runs commands in separate processes that do not have to import torch.

A server imports the large packages once. It forks itself for each process that connects to it,
since several workers run tests at once; that fork forks itself for each command. Each command has
its own arguments, working directory, environment variables and output. Only settings that Python
reads at its start cannot differ; commands that need them run in an ordinary process.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import typing
import uuid
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


class WarmServer:
    """A server of commands, which exits with the process that created it.

    Args:
        environment: Its variables.

    Attributes:
        address: Where a `WarmStart` finds it, in this process or another.
    """

    def __init__(self, environment):
        self.address = f"imitbench-tests-{uuid.uuid4().hex}"
        self._held, its = socket.socketpair()
        listener = _socket()
        listener.bind(f"\0{self.address}")
        listener.listen()
        with its, listener:
            numbers = [its.fileno(), listener.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, __file__, *map(str, numbers)],
                pass_fds=numbers,
                stdin=subprocess.DEVNULL,
                # Arrow's own allocator reserves a gigabyte at once, which `bounds` would count.
                env={**environment, "ARROW_DEFAULT_MEMORY_POOL": "system"},
            )

    def close(self):
        """Stops the server."""
        self._held.close()
        self._process.wait()


class WarmStart:
    """A connection to a server of commands.

    Args:
        address: That of the server.
    """

    def __init__(self, address):
        self._socket = _socket()
        self._socket.connect(f"\0{address}")
        self._answers = self._socket.makefile()
        self._given = json.loads(self._answers.readline())

    def can_run(self, environment):
        """Whether a command with these variables behaves as in an ordinary process."""
        return _read_at_start(environment) == self._given

    def run(self, module, arguments, cwd, environment, bounds=None):
        """Runs `python -m MODULE ARGUMENTS…`, or `python FILE.py ARGUMENTS…`.

        Args:
            module: The module, or the file.
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


def _socket():
    return socket.socket(socket.AF_UNIX)


def _request(module, arguments, cwd, environment, out, err):
    return {
        "module": module, "arguments": arguments, "cwd": str(cwd),
        "environment": environment, "out": str(out), "err": str(err),
    }  # fmt: skip


def _read_at_start(environment):
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _serve(held, listener):
    """Serves all processes that connect to it; does not return."""
    given = _read_at_start(os.environ)  # before OpenCV is imported, which changes it
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
    _use_huge_pages()
    for finalizer in weakref.finalize._registry:
        finalizer.atexit = False  # torch would take back each of its kernels in each command
    os.fsync = lambda _: None  # what tests write need not survive the machine
    typing._cleanups.clear()  # DuckDB would empty each cache of types, which copies their memory
    while True:
        ready, _, _ = select.select([held, listener], [], [])
        if held in ready:  # the process that created the server has ended
            os._exit(0)  # extensions warn about what is left
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                held.close()
                listener.close()
                _serve_one(connection, given)


def _serve_one(connection, given):
    """Runs commands of one process, which is told `given`, until it ends; does not return."""
    with contextlib.suppress(ConnectionError), connection.makefile("rb") as requests:
        connection.sendall(json.dumps(given).encode() + b"\n")
        for line in requests:
            answer = _answer(json.loads(line), connection)
            connection.sendall(json.dumps(answer).encode() + b"\n")
    os._exit(0)


def _use_huge_pages():
    """Lets a fork copy one entry for two megabytes, where the kernel can."""
    collapse, huge = 25, 2 << 20
    madvise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text().splitlines():
        extent, access, _, _, inode, *_ = line.split()
        if access == "rw-p" and inode == "0":
            start, end = (int(number, 16) for number in extent.split("-"))
            start, end = -(-start // huge) * huge, end // huge * huge
            if start < end:
                madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), collapse)


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
    # In the background, where tests may be run, Ctrl-C is ignored from the start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    del sys.path[0]  # the folder of this script; the command leaves out the current one
    sys.argv = [request["module"], *request["arguments"]]
    code = 0
    try:
        if request["module"].endswith(".py"):
            runpy.run_path(request["module"], run_name="__main__")
        else:
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
    try:
        _serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))
    except KeyboardInterrupt:  # the tests are interrupted
        os._exit(1)
