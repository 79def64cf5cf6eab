"""Runs inside the sandbox's own process: confines itself, then runs the code. Standard library only.

Started by path by `wearjax.language.sandbox`, never imported there; what each step guarantees is told there.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import errno
import json
import linecache
import os
import platform
import resource
import socket
import struct
import sys
import traceback

FILE_NAME = "code.py"
# x86_64 and aarch64 numbers of the calls refused to the code; None where the machine has no such call.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    # network, and io_uring, which could open sockets past this filter
    "socket": (41, 198), "io_uring_setup": (425, 425),
    # other processes: to start, to signal, to read, to slow down
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281), "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "ptrace": (101, 117), "kcmp": (312, 272),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise": (440, 440),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "unshare": (272, 97), "setns": (308, 268),
    # memory that the address-space limit does not count
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "semget": (64, 190),
    "msgget": (68, 186), "mq_open": (240, 180), "keyctl": (250, 219), "add_key": (248, 217),
    # attributes of files, which landlock does not guard
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "setxattrat": (463, 463), "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    # wide doors into the kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
}  # fmt: skip
BY_SECOND = {  # refused with these second arguments: a signal to others by way of a descriptor, typing into a terminal
    "fcntl": (72, 25, (8, 15)),
    "ioctl": (16, 29, (0x8901, 0x8902, 0x5412)),
}
OWN_ONLY = {"kill": (62, 129), "tgkill": (234, 131), "prlimit64": (302, 261)}  # allowed on the process itself
CLONE, CLONE3 = (56, 220), (435, 435)
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH value

_NEWUSER, _NEWNET, _NEWIPC, _THREAD = 0x10000000, 0x40000000, 0x08000000, 0x00010000
_NO_NEW_PRIVS, _SET_SECCOMP, _CAPBSET_DROP, _CAP_AMBIENT = 38, 22, 24, 47
_libc = ctypes.CDLL(None, use_errno=True)


def enter_namespaces() -> bool:
    """Own user, network and IPC namespaces: only an unconfigured loopback device is left of the network."""
    user, group = os.getuid(), os.getgid()
    unshare = getattr(_libc, "unshare", None)
    if unshare is None or unshare(_NEWUSER | _NEWNET | _NEWIPC):
        return False
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return True


def drop_privileges() -> bool:
    """No capability, and no way to gain one."""
    if not sys.platform.startswith("linux") or _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    for capability in range(64):
        _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(_CAP_AMBIENT, 4, 0, 0, 0)
    header, nothing = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    return _libc.capset(header, nothing) == 0


def guard_files(folder: str, readable: list[str]) -> bool:
    """Landlock: write in `folder` only, read there and below `readable` only. Needs no_new_privs."""
    version = _libc.syscall(444, None, ctypes.c_size_t(0), 1) if sys.platform.startswith("linux") else -1
    if version < 1:
        return False
    bits = 13 + (version >= 2) + (version >= 3)  # + moving between folders, + truncating
    everything = (1 << bits) - 1 | (1 << 15 if version >= 5 else 0)  # + ioctl on devices
    # From version 6 also no signal and no abstract socket to processes outside.
    wanted = struct.pack("=QQQ", everything, 0, 3) if version >= 6 else struct.pack("=Q", everything)
    ruleset = _libc.syscall(444, wanted, ctypes.c_size_t(len(wanted)), 0)
    if ruleset < 0:
        return False
    read, of_a_file = 1 << 2 | 1 << 3, 1 << 1 | 1 << 2 | (1 << 14 if version >= 3 else 0)
    own = everything & ~(1 << 0 | 1 << 6 | 1 << 11)  # neither execution nor device files
    rules = [(folder, own), ("/dev/null", of_a_file)]
    rules += [(path, read) for path in readable]
    for path, access in rules:
        if not os.path.exists(path):
            continue
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not os.path.isdir(path):
            access &= of_a_file
        failed = _libc.syscall(445, ruleset, 1, struct.pack("=Qi", access & everything, handle), 0)
        os.close(handle)
        if failed:
            return False
    done = _libc.syscall(446, ruleset, 0) == 0
    os.close(ruleset)
    return done


def filter_calls() -> bool:
    """Seccomp: refuses the calls above with 'operation not permitted'. Needs no_new_privs."""
    if not sys.platform.startswith("linux") or platform.machine() not in MACHINES or sys.maxsize < 2**32:
        return False
    column, architecture = MACHINES[platform.machine()]
    program = _program(column, architecture, os.getpid())
    rules = ctypes.create_string_buffer(program, len(program))

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("rules", ctypes.c_void_p))

    whole = Filter(len(program) // 8, ctypes.cast(rules, ctypes.c_void_p))
    return _libc.prctl(_SET_SECCOMP, 2, ctypes.byref(whole), 0, 0) == 0


def _program(column: int, architecture: int, pid: int) -> bytes:
    load, equal, at_least, has_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, refuse, no_such_call = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
    first_argument = (load, 0, 0, 16)
    rules = [
        (load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, refuse),
        (load, 0, 0, 0), (at_least, 0, 1, 0x40000000), (give, 0, 0, refuse),  # the x32 numbers
        # The C library falls back from clone3, whose flags cannot be seen here, to clone: threads only.
        (equal, 0, 1, CLONE3[column]), (give, 0, 0, no_such_call),
        (equal, 0, 4, CLONE[column]), first_argument, (has_bit, 0, 1, _THREAD), (give, 0, 0, allow),
        (give, 0, 0, refuse),
    ]  # fmt: skip
    for numbers in REFUSED.values():
        if (number := numbers[column]) is not None:
            rules += [(equal, 0, 1, number), (give, 0, 0, refuse)]
    for *own_numbers, arguments in BY_SECOND.values():
        checks = [(equal, len(arguments) - i, 0, value) for i, value in enumerate(arguments)]
        rules += [(equal, 0, len(checks) + 3, own_numbers[column]), (load, 0, 0, 24), *checks]
        rules += [(give, 0, 0, allow), (give, 0, 0, refuse)]
    for name, on_itself in OWN_ONLY.items():
        itself = 0 if name == "prlimit64" else pid  # 0 is a whole process group for kill
        rules += [
            (equal, 0, 5, on_itself[column]), first_argument, (equal, 1, 0, pid), (equal, 0, 1, itself),
            (give, 0, 0, allow), (give, 0, 0, refuse),
        ]  # fmt: skip
    rules.append((give, 0, 0, allow))
    return b"".join(struct.pack("=HBBI", *rule) for rule in rules)


def limit_resources(limits: dict[str, int]) -> None:
    def at_most(kind: int, soft: int, hard: int) -> None:
        ceiling = resource.getrlimit(kind)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.setrlimit(kind, (soft, hard))

    cpu = limits["cpu_s"]
    at_most(resource.RLIMIT_CPU, cpu, cpu + 1)  # whoever catches the first signal meets the second limit
    for kind, amount in (
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_CORE, 0),
    ):
        at_most(kind, amount, amount)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses limits below what is mapped
        at_most(resource.RLIMIT_AS, limits["memory_bytes"], limits["memory_bytes"])


class Watch:
    """Explains refusals to the code and reports attempts; where the kernel does not help, it is all there is."""

    STARTS = ("os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen",
              "pty.spawn")  # fmt: skip
    LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "urllib.Request")
    CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate",
               "os.chmod", "os.chown", "os.utime", "os.setxattr", "os.removexattr")  # fmt: skip
    WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    def __init__(self, folder: str, report: int):
        self._folder = os.path.realpath(folder)
        self._report = report

    def __call__(self, event: str, args: tuple) -> None:
        if event in self.STARTS:
            self._refuse("process", "the sandbox starts no other process")
        elif event in self.LOOKUPS or (event == "socket.__new__" and args[1] != socket.AF_UNIX):
            self._refuse("network", "the sandbox has no network")
        elif event == "open" and isinstance(args[2], int) and args[2] & self.WRITING:
            self._own(args[0])
        elif event in self.CHANGES:
            for path in args[: 2 if event in ("os.rename", "os.link") else 1]:
                self._own(path)

    def _own(self, path: object) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        real = os.path.realpath(os.fsdecode(path))
        if real not in ("/dev/null", self._folder) and not real.startswith(self._folder + os.sep):
            self._refuse("write outside", "the sandbox writes in its own folder only")

    def _refuse(self, what: str, why: str) -> None:
        tell(self._report, what)
        raise PermissionError(errno.EPERM, why)


def tell(report: int, what: object) -> None:
    with contextlib.suppress(OSError):  # the code may have closed it
        os.write(report, json.dumps(what).encode() + b"\n")


def run(source: str, report: int) -> int:
    """Runs the code as `__main__`; a last line that is an expression is shown, as in a notebook."""
    linecache.cache[FILE_NAME] = (len(source), None, source.splitlines(True), FILE_NAME)
    space = {"__name__": "__main__", "__builtins__": __builtins__}
    try:
        tree = ast.parse(source, FILE_NAME)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, FILE_NAME, "exec"), space)
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), FILE_NAME, "eval"), space)
            if shown is not None:
                print(repr(shown))
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        if isinstance(error, MemoryError):
            tell(report, "memory")
        show(traceback.TracebackException.from_exception(error))
        return 1


def show(error: traceback.TracebackException) -> None:
    """Prints the error without this file's frames and without the machine's folders."""
    chain = [error]
    for link in chain:
        chain += [other for other in (link.__cause__, link.__context__) if other is not None]
        own = [frame for frame in link.stack if frame.filename not in (__file__, ast.__file__)]
        for frame in own:
            _ = frame.line  # read before its file is renamed
            frame.filename = os.path.basename(frame.filename)
        link.stack[:] = own
    print("".join(error.format()), end="", file=sys.stderr)


def main() -> int:
    report = int(sys.argv[1])
    order = json.loads(sys.stdin.buffer.read())
    sys.argv[:] = [FILE_NAME]
    network = enter_namespaces() if order["namespaces"] else False
    limit_resources(order["limits"])
    dropped = drop_privileges()
    files = dropped and guard_files(order["folder"], order["readable"])
    calls = dropped and filter_calls()
    tell(report, {"namespaces": network, "files": files, "calls": calls})
    if order["strict"] and not (files and calls):
        return 0
    sys.addaudithook(Watch(order["folder"], report))
    return run(order["source"], report)


if __name__ == "__main__":
    sys.exit(main())
