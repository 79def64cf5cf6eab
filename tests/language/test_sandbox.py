import os
import re
import sys
import threading
from pathlib import Path

import pytest

from wearjax.errors import ConfigError
from wearjax.language import confine, process_watch, sandbox
from wearjax.language.sandbox import Limits, Sandbox

LIMITS = Limits(
    cpu_s=5, wall_s=20, memory_mb=1024, threads=16, file_mb=1, folder_mb=8, files=50, output_chars=200
)


def _confined():
    with Sandbox(limits=LIMITS, strict=False) as made:
        return made.run("").protection


PROTECTION = _confined() if sys.platform.startswith("linux") else None
by_kernel = pytest.mark.skipif(
    PROTECTION is None or not PROTECTION.by_kernel, reason=f"this kernel confines too little: {PROTECTION}"
)


@pytest.fixture
def box():
    with Sandbox(limits=LIMITS, files={"week.csv": "a\n1\n"}, strict=False) as made:
        yield made
    assert not made.folder.exists()


def test_runs_code_and_shows_the_last_expression(box):
    done = box.run("x = 20\nprint('hello')\nx + 1")
    assert (done.stdout, done.stderr, done.exit_code, done.stopped_by) == ("hello\n21\n", "", 0, None)
    assert done.text() == "hello\n21"
    assert box.run("None").text() == "[no output]"
    assert box.run("import sys; sys.exit(3)").exit_code == 3
    assert box.run("x").text().endswith("NameError: name 'x' is not defined")  # a fresh process


def test_errors_show_the_code_and_nothing_of_the_machine(box):
    done = box.run("import json\ndef f():\n    json.loads('{')\nf()")
    assert done.exit_code == 1
    assert done.stderr.startswith(
        'Traceback (most recent call last):\n  File "code.py", line 4, in <module>\n    f()'
    )
    assert "confine" not in done.stderr
    assert not re.search(r'File "[^"]*/', done.stderr)
    assert "SyntaxError" in box.run("x = (").text()
    assert box.run("import os; print(os.getcwd())").stdout == ".\n"


def test_files_persist_and_open_ones_are_flushed(box):
    assert box.run("f = open('out.txt', 'w'); f.write(open('week.csv').read()); 0").exit_code == 0
    assert box.run("import os; print(sorted(os.listdir()), open('out.txt').read())").stdout.startswith(
        "['out.txt', 'week.csv'] a\n1"
    )


def test_nothing_of_the_callers_environment(box, monkeypatch):
    monkeypatch.setenv("TOY_KEY", "s3cret")
    done = box.run("import os; print('TOY_KEY' in os.environ, os.environ['HOME'])")
    assert done.stdout == "False .\n"


def test_science_packages_work_under_the_limits():
    with Sandbox(
        limits=Limits(cpu_s=20, wall_s=60), files={"week.csv": "a,b\n1,2\n3,5\n"}, strict=False
    ) as box:
        done = box.run(
            "import numpy as np, pandas as pd\n"
            "print(pd.read_csv('week.csv').mean().tolist(), np.linalg.inv(np.eye(9)).sum())"
        )
    assert done.text() == "[2.0, 3.5] 9.0"


NETWORK = "import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)"
RAW = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, *args):
    print(name, getattr(libc, name)(*args), ctypes.get_errno())
"""


def test_network_attempt(box):
    with Listener() as port:
        done = box.run(NETWORK.format(port=port))
    assert done.exit_code == 1
    assert done.stderr.endswith("PermissionError: [Errno 1] the sandbox has no network\n")
    assert done.attempts == ("network",)
    assert "Errno 1" in box.run("import urllib.request as r; r.urlopen('http://example.com')").stderr


class Listener:
    """A server that fails the test when anyone connects."""

    def __enter__(self):
        import socket

        self.socket = socket.create_server(("127.0.0.1", 0))
        return self.socket.getsockname()[1]

    def __exit__(self, *_):
        self.socket.settimeout(0)
        with pytest.raises(BlockingIOError):
            self.socket.accept()
        self.socket.close()


@by_kernel
@pytest.mark.parametrize("namespaces", [True, False])
def test_network_around_python(box, namespaces):
    box._namespaces = namespaces
    # AF_INET, AF_INET6, AF_UNIX, AF_NETLINK; and an inet socket by raw number
    code = RAW + "for family in (2, 10, 1, 16): tried('socket', family, 1, 0)\ntried('syscall', {}, 2, 1, 0)"
    number = confine.REFUSED["socket"][confine.MACHINES[os.uname().machine][0]]
    done = box.run(code.format(number))
    assert done.stdout == "socket -1 1\n" * 4 + "syscall -1 1\n"
    assert done.attempts == ()  # what goes around Python is refused, not listed
    assert done.protection.network.endswith("seccomp")


def test_writing_outside(box, tmp_path):
    target = tmp_path / "victim"
    target.write_text("whole")
    for code in (
        f"open({str(target)!r}, 'w')",
        f"open('../{box.folder.name}x', 'w')",
        f"import os; os.remove({str(target)!r})",
        f"import os; os.rename('week.csv', {str(tmp_path / 'new')!r})",
        f"import os; os.symlink({str(target)!r}, 'link'); open('link', 'a')",
        f"import os; os.mkdir({str(tmp_path / 'new')!r})",
        f"import os; os.chmod({str(target)!r}, 0)",
    ):
        done = box.run(code)
        assert done.exit_code == 1, code
        assert done.attempts == ("write outside",), code
    assert target.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [target]


@by_kernel
def test_files_around_python(box, tmp_path):
    target = tmp_path / "victim"
    target.write_text("whole")
    before = target.stat()
    path = os.fsencode(target)
    done = box.run(
        RAW
        + f"""
victim, new = {path!r}, {path!r} + b'2'
tried('open', victim, 1)
tried('open', victim, 0)
tried('open', new, 0o101, 0o600)
tried('unlink', victim)
tried('rename', b'week.csv', new)
tried('link', b'week.csv', new)
tried('symlink', b'week.csv', new)
tried('mkdir', new, 0o700)
tried('truncate', victim, 0)
tried('chmod', victim, 0)
tried('chown', victim, 1, 1)
tried('utimes', victim, None)
tried('setxattr', victim, b'user.a', b'b', 1, 0)
"""
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 13, done.text()
    assert all(result == "-1" and int(error) in (1, 13, 18) for _, result, error in lines), done.stdout
    after = target.stat()
    assert (after.st_mode, after.st_uid, after.st_mtime_ns) == (
        before.st_mode,
        before.st_uid,
        before.st_mtime_ns,
    )
    assert list(tmp_path.iterdir()) == [target]


@by_kernel
def test_reading_outside(box, tmp_path):
    secret = tmp_path / "gold.json"
    secret.write_text("the answers")
    for path in (secret, Path(sandbox.__file__), "/etc/passwd", f"/proc/{os.getpid()}/environ", tmp_path):
        done = box.run(
            f"import os; p = {str(path)!r}; os.listdir(p) if p == {str(tmp_path)!r} else open(p).read()"
        )
        assert done.exit_code == 1
        assert "Permission denied" in done.stderr
    with Sandbox(limits=LIMITS, readable=[secret]) as other:
        assert other.run(f"open({str(secret)!r}).read()").stdout == "'the answers'\n"


def test_fork_bomb(box):
    done = box.run("import os\nwhile True:\n    os.fork()")
    assert done.exit_code == 1
    assert done.attempts == ("process",)
    assert box.run("import subprocess; subprocess.run(['/bin/ls'])").attempts == ("process",)


@by_kernel
def test_processes_around_python(box):
    number = {"x86_64": (57, 58, 435), "aarch64": (220, 220, 435)}[os.uname().machine]
    done = box.run(
        RAW
        + f"""
tried('fork')
for number in {number!r}: tried('syscall', number, 17, 0, 0, 0, 0)
tried('execv', b'/bin/ls', None)
tried('kill', {os.getpid()}, 0)
tried('kill', 0, 0)
tried('kill', -1, 0)
tried('ptrace', 16, {os.getpid()}, 0, 0)
tried('fcntl', 0, 8, {os.getpid()})
tried('prlimit', {os.getpid()}, 7, None, None)
tried('unshare', 0x10000000)
tried('syscall', 319 if {number[0] == 57} else 279, b'x', 0)
"""
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 13, done.text()
    assert all(re.fullmatch(r"\w+ -1 (1|38|22)", line) for line in lines), done.stdout
    done = box.run("import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert (done.exit_code, done.text()) == (-15, "[ended by SIGTERM]")


def test_many_threads(box):
    done = box.run(
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,)).start()"
    )
    assert done.stopped_by == "threads"
    few = "import threading\nfor i in range(3):\n    t = threading.Thread(target=print, args=(i,)); t.start(); t.join()"
    assert box.run(few).stdout == "0\n1\n2\n"


def test_memory_overrun():
    with Sandbox(limits=Limits(memory_mb=128), strict=False) as box:
        done = box.run("x = []\nwhile True: x.append(bytearray(10**7))")
    assert (done.exit_code, done.stopped_by) == (1, "memory")
    assert done.text().endswith("MemoryError\n[stopped: over the limit of memory]")


@pytest.mark.parametrize("catch", ["", "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"])
def test_processor_time_overrun(catch):
    with Sandbox(limits=Limits(cpu_s=1, wall_s=60), strict=False) as box:
        done = box.run(catch + "while True: pass")
    assert done.stopped_by == "processor time"
    assert "processor time" in done.text()


def test_wall_time_overrun():
    with Sandbox(limits=Limits(wall_s=1.5), strict=False) as box:
        done = box.run("import time; print('before', flush=True); time.sleep(600)")
    assert (done.stopped_by, done.exit_code, done.stdout) == ("wall time", -9, "before\n")


def test_huge_output_is_cut_in_the_middle(box):
    done = box.run("print('start', 'x' * 5_000_000, 'end')")
    assert done.stdout.startswith("start xxx")
    assert done.stdout.endswith("xxx end\n")
    assert done.dropped_chars == 5_000_011 - 200
    assert f"[... {done.dropped_chars} characters left out ...]" in done.stdout
    assert len(done.stdout) < 300


def test_endless_output():
    with Sandbox(limits=Limits(wall_s=0.3, output_chars=100), strict=False) as box:
        done = box.run("while True: print('x' * 1000)")
    assert done.stopped_by == "wall time"
    assert len(done.stdout) < 200


@pytest.mark.parametrize(
    "code",
    [
        "i = 0\nwhile True:\n    open(str(i), 'w').close(); i += 1",
        "i = 0\nwhile True:\n    open(str(i % 30), 'wb').write(bytes(10**6)); i += 1",
        "import os\nwhile True:\n    os.mkdir('d'); os.chdir('d')",
    ],
    ids=["many", "large", "deep"],
)
def test_files_overrun(code, box):
    assert box.run(code).stopped_by == "files"


def test_one_large_file(box):
    assert "File too large" in box.run("open('x', 'wb').write(bytes(2 * 10**6))").stderr


def test_many_open_files(box):
    assert "Too many open files" in box.run("x = [open('week.csv') for i in range(100)]").stderr


def test_code_cannot_forge_its_report(box):
    forged = """
import os, json
for fd in range(3, 20):
    try: os.write(fd, b'{"namespaces": false, "files": false, "calls": false}\\n"wild"\\n')
    except OSError: pass
"""
    done = box.run(forged)
    assert done.protection == PROTECTION
    assert done.attempts == ()


def test_output_that_is_no_text_and_code_that_is_none(box):
    assert "�" in box.run("import sys; sys.stdout.buffer.write(b'\\xff\\xfe')").stdout
    assert "SyntaxError" in box.run("\x00").stderr or "null bytes" in box.run("\x00").stderr
    assert box.run("'\ud800'").exit_code == 1


@pytest.fixture
def weak(monkeypatch, tmp_path):
    """A machine with neither landlock nor seccomp nor namespaces."""
    source = Path(confine.__file__).read_text()
    for strong, gone in (
        ("_libc.syscall(444, None, ctypes.c_size_t(0), 1)", "-1"),
        ("platform.machine() not in MACHINES", "True"),
        ('enter_namespaces() if order["namespaces"] else False', "False"),
    ):
        assert strong in source
        source = source.replace(strong, gone)
    (tmp_path / "confine.py").write_text(source)
    monkeypatch.setattr(sandbox, "_CONFINE", tmp_path / "confine.py")


def test_a_strict_sandbox_refuses_a_weak_machine(weak):
    with (
        Sandbox(limits=LIMITS) as box,
        pytest.raises(ConfigError, match=r"cannot confine code .*strict=False"),
    ):
        box.run("open('ran', 'w')")
    with Sandbox(limits=LIMITS, strict=False) as box:
        done = box.run("print(1)")
    assert not done.protection.by_kernel
    assert (done.protection.network, done.protection.files) == (
        "checks inside Python",
        "checks inside Python",
    )


def test_weak_protection_still_stops_mistakes(weak, tmp_path):
    with Sandbox(limits=LIMITS, strict=False) as box:
        test_network_attempt(box)
        test_fork_bomb(box)
        (tmp_path / "room").mkdir()
        test_writing_outside(box, tmp_path / "room")


def test_what_escapes_the_weak_sandbox_does_not_hold_it(weak):
    hold = "import ctypes, time\nif ctypes.CDLL(None).fork() == 0:\n    time.sleep(600)\nprint('parent')"
    with Sandbox(limits=LIMITS, strict=False) as box:
        done = box.run(hold)
    assert done.exit_code == 0
    assert done.stdout == "parent\n"


def test_namespaces_that_cannot_be_entered_fully(monkeypatch, tmp_path):
    source = Path(confine.__file__).read_text()
    (tmp_path / "confine.py").write_text(source.replace('"/proc/self/{name}"', '"/proc/self/no such/{name}"'))
    monkeypatch.setattr(sandbox, "_CONFINE", tmp_path / "confine.py")
    with Sandbox(limits=LIMITS, strict=False) as box:
        done = box.run("print(1)")
    assert done.stdout == "1\n"
    assert "namespace" not in done.protection.network


def test_runs_side_by_side():
    outcomes = {}

    def work(i):
        with Sandbox(limits=LIMITS, strict=False) as box:
            outcomes[i] = box.run(f"open('mine', 'w').write('{i}'); print(open('mine').read())").stdout

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {i: f"{i}\n" for i in range(3)}


def test_pauses_of_the_watcher_are_not_time_of_the_code(monkeypatch):
    clock = [0.0]

    def leaping():
        clock[0] += 1000.0  # the machine slept between any two looks
        return clock[0]

    monkeypatch.setattr(process_watch.time, "monotonic", leaping)
    with Sandbox(limits=Limits(wall_s=20), strict=False) as box:
        assert box.run("print(1)").stopped_by is None


def test_refuses_impossible_settings():
    with pytest.raises(ConfigError, match="wall_s: must be above 0"):
        Limits(wall_s=0)
    with pytest.raises(ConfigError, match="plain file name"):
        Sandbox(files={"../x": ""})
    with Sandbox(python="/no/such/python") as box, pytest.raises(ConfigError, match="cannot start /no/such"):
        box.run("1")
