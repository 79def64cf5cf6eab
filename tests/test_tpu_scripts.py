"""Pod scripts: the commands that they print, their refusals, and a run through preemptions on a made-up cloud."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "tpu_scripts"
ACTIONS = ("create", "install", "start", "resume", "stop", "delete", "status", "logs", "supervise")
POD = {
    "POD_NAME": "pod-1", "POD_ZONE": "us-central2-b", "POD_TYPE": "v4-32", "POD_PACKAGE": "wearjax[tpu]",
}  # fmt: skip
RUN = {"RUN_CONFIG": "lsm2_daily", "RUN_DATA": "gs://cohort/store", "RUN_OUT": "/mnt/wearjax/runs/a b"}
ALL = POD | RUN | {"POD_BUCKET": "cohort"}

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def call(action: str, *arguments: str, settings=ALL, path: Path | None = None, **more):
    """Runs a script with these settings only, and with no gcloud but one in `path`."""
    places = ([str(path)] if path else []) + ["/usr/bin", "/bin"]
    environment = {"PATH": os.pathsep.join(places), "HOME": os.environ.get("HOME", "/")} | settings
    return subprocess.run(
        ["bash", str(SCRIPTS / f"{action}.sh"), *arguments],
        env=environment, capture_output=True, text=True, timeout=60, **more,
    )  # fmt: skip


def commands(done: subprocess.CompletedProcess) -> list[list[str]]:
    """The printed commands, as a shell would read them."""
    assert done.returncode == 0, done.stderr
    return [shlex.split(line) for line in done.stdout.splitlines() if not line.startswith("#")]


def remote(command: list[str]) -> list[str]:
    """What is run on the workers, as their shell would read it."""
    assert command[:5] == ["gcloud", "compute", "tpus", "tpu-vm", "ssh"]
    return shlex.split(command[command.index("--command") + 1])


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


@pytest.mark.parametrize("file", sorted(SCRIPTS.glob("*.sh")), ids=lambda f: f.name)
def test_syntax(file):
    assert subprocess.run(["bash", "-n", str(file)], capture_output=True).returncode == 0
    strict = file.name == "settings.sh" or "set -euo pipefail\n" in file.read_text()
    assert strict


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck():
    files = map(str, sorted(SCRIPTS.glob("*.sh")))
    done = subprocess.run(["shellcheck", "-x", *files], capture_output=True, text=True, cwd=SCRIPTS)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("action", ACTIONS)
def test_dry_run_prints_gcloud_commands_and_runs_nothing(action, tmp_path):
    fake = tmp_path / "gcloud"
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    fake.chmod(0o755)
    printed = commands(call(action, "--dry-run", path=tmp_path))
    assert printed
    for command in printed:
        assert command[:4] == ["gcloud", "compute", "tpus", "tpu-vm"]
        assert option(command, "--zone") == "us-central2-b"
        assert "pod-1" in command or "pod-1:wearjax-pod/" in command
        assert "--project" not in command
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("action", ACTIONS)
def test_help_says_what_a_script_does(action):
    done = call(action, "--help", settings={})
    assert done.returncode == 0
    assert f"{action}.sh [--dry-run] [--settings FILE]" in done.stdout
    assert "#" not in done.stdout
    assert "set -euo" not in done.stdout


@pytest.mark.parametrize(
    ("action", "needed"),
    [
        ("create", ["POD_NAME", "POD_ZONE", "POD_TYPE"]),
        ("install", ["POD_NAME", "POD_ZONE"]),
        ("start", ["POD_NAME", "POD_ZONE", "RUN_CONFIG", "RUN_DATA", "RUN_OUT"]),
        ("resume", ["POD_NAME", "POD_ZONE", "RUN_CONFIG", "RUN_DATA", "RUN_OUT"]),
        ("stop", ["POD_NAME", "POD_ZONE"]),
        ("delete", ["POD_NAME", "POD_ZONE"]),
        ("status", ["POD_NAME", "POD_ZONE", "RUN_OUT"]),
        ("logs", ["POD_NAME", "POD_ZONE"]),
        ("supervise", ["POD_NAME", "POD_ZONE", "POD_TYPE", "RUN_CONFIG", "RUN_DATA", "RUN_OUT"]),
    ],
)
def test_missing_settings_are_named_in_one_line(action, needed):
    for name in needed:
        done = call(action, "--dry-run", settings={k: v for k, v in ALL.items() if k != name})
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith(f"error: {name} is not set")
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("action", "given", "named"),
    [
        ("delete", {}, "POD_NAME, POD_ZONE are not set; set them in"),
        ("start", {"POD_NAME": "pod-1"}, "POD_ZONE, RUN_CONFIG, RUN_DATA, RUN_OUT are not set"),
        (
            "supervise",
            {"POD_NAME": "pod-1", "RUN_OUT": "/mnt/a"},
            "POD_ZONE, POD_TYPE, RUN_CONFIG, RUN_DATA are not set",
        ),
        ("create", POD | {"POD_TYPE": ""}, "POD_TYPE is not set; set it in"),
    ],
)
def test_missing_settings_are_named_together(action, given, named):
    done = call(action, "--dry-run", settings=given)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {named}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("action", "change", "message"),
    [
        ("stop", {"POD_BUCKET": "gs://"}, "POD_BUCKET is 'gs://', expected the name of a bucket"),
        ("stop", {"POD_BUCKET": "my bucket"}, "POD_BUCKET is 'my bucket'"),
        ("stop", {"POD_BUCKET": "gs://cohort/runs"}, "POD_BUCKET is 'gs://cohort/runs'"),
        ("stop", {"POD_BUCKET": "", "POD_NFS": "share"}, "POD_NFS is 'share', expected HOST:/PATH"),
        ("stop", {"POD_MOUNT": "mnt/wearjax"}, "POD_MOUNT is 'mnt/wearjax', expected an absolute path"),
        ("stop", {"POD_MOUNT": "/"}, "POD_MOUNT is '/'"),
        ("stop", {"POD_STOP_SECONDS": "10m"}, "POD_STOP_SECONDS is '10m', expected a whole number"),
        ("supervise", {"POD_POLL_SECONDS": "often"}, "POD_POLL_SECONDS is 'often', expected a number"),
        (
            "supervise",
            {"POD_MAX_FAILURES": "0"},
            "POD_MAX_FAILURES is '0', expected a whole number of at least 1",
        ),
        (
            "supervise",
            {"POD_DELETE_WHEN_FINISHED": "yes"},
            "POD_DELETE_WHEN_FINISHED is 'yes', expected 0 or 1",
        ),
        ("create", {"POD_PACKAGE": "missing.whl"}, "no file missing.whl"),
        ("create", {"POD_CAPACITY": "cheap"}, "POD_CAPACITY is 'cheap'"),
        ("start", {"RUN_OUT": "gs://cohort/run"}, "expected an absolute path"),
        ("start", {"RUN_OUT": "runs/a"}, "expected an absolute path"),
        ("start", {"RUN_DATA": "store"}, "RUN_DATA is 'store'"),
        ("start", {"RUN_CONFIG": "missing.py"}, "no file missing.py"),
        ("install", {"POD_PACKAGE": "missing.whl"}, "no file missing.whl"),
        ("stop", {"POD_NFS": "10.0.0.2:/share"}, "not both"),
        ("supervise", {"POD_BUCKET": ""}, "goes with the workers"),
        ("supervise", {"RUN_OUT": "/home/me/run"}, "goes with the workers"),
    ],
)
def test_impossible_settings_are_refused(action, change, message):
    done = call(action, "--dry-run", settings=ALL | change)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_wrong_settings_are_named_together():
    done = call("stop", "--dry-run", settings=ALL | {"POD_MOUNT": "mnt", "POD_MAX_FAILURES": "none"})
    assert done.returncode == 2
    assert [line.split(" is ")[0] for line in done.stderr.splitlines()] == [
        "error: POD_MOUNT", "error: POD_MAX_FAILURES",
    ]  # fmt: skip


def test_a_bucket_may_be_given_as_its_address():
    settings = ALL | {"POD_BUCKET": "gs://cohort/"}
    assert remote(commands(call("install", "--dry-run", settings=settings))[-1])[4:6] == ["bucket", "cohort"]


def test_a_misspelled_name_in_the_settings_file_is_refused(tmp_path):
    file = tmp_path / "pod.settings"
    file.write_text("# POD_OLD=1\nPOD_NAME=a\nexport POD_BUKET=cohort\n")
    done = call("delete", "--dry-run", "--settings", str(file))
    assert done.returncode == 2
    assert done.stderr == f"error: {file}: there is no setting POD_BUKET; settings.example lists them all\n"


def test_a_file_that_is_no_wheel_of_wearjax_is_refused_before_there_is_a_pod(tmp_path):
    wheel = tmp_path / "numpy-2.4.0-py3-none-any.whl"
    wheel.touch()
    done = call("create", "--dry-run", settings=ALL | {"POD_PACKAGE": str(wheel)})
    assert (done.returncode, done.stdout) == (2, "")
    assert "is no wheel of wearjax" in done.stderr


@pytest.mark.parametrize("action", ["start", "supervise"])
@pytest.mark.parametrize(
    "word", ["--dryrun", "--dry-runn", "--setting=a", "--force", "-n", "fast", "--.steps"]
)
def test_what_is_no_field_of_the_configuration_starts_no_run(action, word, tmp_path):
    cloud = Cloud(tmp_path)
    done = cloud.call(action, word)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match(
        "error: (unknown option|unexpected argument:?) " + re.escape(word.split("=")[0]), done.stderr
    )
    assert len(done.stderr.splitlines()) == 1
    assert cloud.calls() == []


@pytest.mark.parametrize(
    "words",
    [
        ["--loop.steps", "5", "--model.encoder-depth=2", "--optimizer.clip_norm", "-1"],
        ["--seed", "3", "--name=a"],
        ["--loop.steps", "5", "--", "--force", "x"],
        ["--", "x"],
    ],
)
def test_fields_of_the_configuration_and_what_follows_a_double_dash_go_on(words):
    (command,) = commands(call("start", "--dry-run", *words))
    assert remote(command)[6:] == [word for word in words if word != "--"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["foo"], "worker 'foo': expected a number or all"),
        (["--follow"], "worker '--follow'"),
        (["0", "many"], "lines 'many'"),
        (["0", "0"], "lines '0'"),
    ],
)
def test_logs_takes_a_worker_and_a_number_of_lines(words, message):
    done = call("logs", "--dry-run", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("action", ["create", "install", "stop", "delete", "status"])
def test_unknown_arguments_are_refused(action):
    done = call(action, "--dry-run", "--fast")
    assert (done.returncode, done.stderr) == (2, "error: unexpected argument: --fast\n")


def test_without_gcloud_only_dry_runs_work(tmp_path):
    for name in ("bash", "dirname"):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = call("stop", settings=ALL | {"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr.startswith("error: gcloud is not installed")
    assert call("stop", "--dry-run", settings=ALL | {"PATH": str(tmp_path)}).returncode == 0


@pytest.mark.parametrize(
    ("capacity", "flag"), [("on-demand", None), ("spot", "--spot"), ("preemptible", "--preemptible")]
)
def test_create_asks_for_the_capacity(capacity, flag):
    first = commands(call("create", "--dry-run", settings=ALL | {"POD_CAPACITY": capacity}))[0]
    assert first[4:6] == ["create", "pod-1"]
    assert option(first, "--accelerator-type") == "v4-32"
    assert option(first, "--version") == "tpu-ubuntu2204-base"
    assert [a for a in first if a in ("--spot", "--preemptible")] == ([flag] if flag else [])


def test_project_is_passed_when_set():
    for command in commands(call("create", "--dry-run", settings=ALL | {"POD_PROJECT": "mine"})):
        assert option(command, "--project") == "mine"


def test_create_installs_on_all_workers():
    _, folder, copy, setup = commands(call("create", "--dry-run"))
    assert remote(folder) == ["mkdir", "-p", "wearjax-pod"]
    assert copy[4:7] == ["scp", str(SCRIPTS / "worker.sh"), "pod-1:wearjax-pod/"]
    assert remote(setup)[:3] == ["bash", "wearjax-pod/worker.sh", "setup"]
    assert remote(setup)[3:] == ["wearjax[tpu]", "bucket", "cohort", "/mnt/wearjax"]
    assert all(option(c, "--worker") == "all" for c in (folder, copy, setup))


def test_install_copies_a_wheel(tmp_path):
    wheel = tmp_path / "my wheels" / "wearjax-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    settings = POD | {"POD_PACKAGE": str(wheel), "POD_NFS": "10.0.0.2:/share"}
    _, copy, setup = commands(call("install", "--dry-run", settings=settings))
    assert str(wheel) in copy
    assert remote(setup)[3:] == [wheel.name, "nfs", "10.0.0.2:/share", "/mnt/wearjax"]


UV = """#!{python}
import pathlib, sys
with open({log!r}, "a") as log:
    print("uv", *sys.argv[1:], file=log)
if {works}:
    folder = pathlib.Path(sys.argv[sys.argv.index("--out-dir") + 1])
    (folder / "wearjax-7-py3-none-any.whl").touch()
else:
    sys.exit("no backend")
"""
NO_PACKAGE = {name: value for name, value in ALL.items() if name != "POD_PACKAGE"}


def builder(folder: Path, *, works: bool = True) -> Path:
    """Puts a made-up uv and a gcloud beside it that write down their calls; what they wrote is returned."""
    log = folder / "log"
    for name, text in (
        ("uv", UV.format(python=sys.executable, log=str(log), works=works)),
        ("gcloud", f'#!/bin/sh\necho gcloud "$@" >>{shlex.quote(str(log))}\n'),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return log


def test_by_default_a_wheel_of_the_checkout_is_built_before_the_pod_is_made(tmp_path):
    log = builder(tmp_path)
    done = call("create", settings=NO_PACKAGE, path=tmp_path)
    assert done.returncode == 0, done.stderr
    uv, create, _, copy, setup = log.read_text().splitlines()
    assert uv.startswith("uv build ")
    assert uv.endswith(f" {SCRIPTS.parent}")
    assert " create " in create
    folder = Path(uv.split()[-2])
    assert f"{folder}/wearjax-7-py3-none-any.whl pod-1:wearjax-pod/" in copy
    assert "setup wearjax-7-py3-none-any.whl" in setup
    assert not folder.exists()


@pytest.mark.parametrize("action", ["create", "supervise"])
def test_a_wheel_that_cannot_be_built_makes_no_pod(action, tmp_path):
    log = builder(tmp_path, works=False)
    done = call(action, settings=NO_PACKAGE, path=tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith(f"no backend\nerror: the wheel of {SCRIPTS.parent} could not be built\n")
    assert "gcloud" not in log.read_text()


def test_supervise_builds_one_wheel_for_all_pods_of_the_run(tmp_path):
    cloud = Cloud(tmp_path, preempt_at=(10,))
    del cloud.settings["POD_PACKAGE"]
    log = tmp_path / "log"
    (tmp_path / "uv").write_text(UV.format(python=sys.executable, log=str(log), works=True))
    (tmp_path / "uv").chmod(0o755)
    done = cloud.call("supervise")
    assert done.returncode == 0, done.stderr
    assert cloud.calls().count("setup") == 2
    assert len(log.read_text().splitlines()) == 1


def test_a_dry_run_shows_how_the_wheel_is_built_and_builds_none(tmp_path):
    log = builder(tmp_path)
    done = call("create", "--dry-run", settings=NO_PACKAGE, path=tmp_path)
    assert done.stdout.splitlines()[0] == f"# uv build --quiet --wheel --out-dir FOLDER {SCRIPTS.parent}"
    version = tomllib.loads((SCRIPTS.parent / "pyproject.toml").read_text())["project"]["version"]
    assert remote(commands(done)[-1])[3] == f"wearjax-{version}-py3-none-any.whl"
    assert not log.exists()


AWKWARD = ["--name", 'a b\'s "c" $HOME *', "--loop.steps=5", "", "ö;|&"]


@pytest.mark.parametrize("action", ["start", "resume"])
def test_start_passes_arguments_through_both_shells(action):
    (command,) = commands(call(action, "--dry-run", *AWKWARD))
    assert option(command, "--worker") == "all"
    assert remote(command)[1:6] == [
        "wearjax-pod/worker.sh", "start", "/mnt/wearjax/runs/a b", "gs://cohort/store", "lsm2_daily",
    ]  # fmt: skip
    assert remote(command)[6:] == AWKWARD


def test_start_copies_a_configuration_file(tmp_path):
    file = tmp_path / "my config.py"
    file.touch()
    copy, start = commands(call("start", "--dry-run", settings=ALL | {"RUN_CONFIG": str(file)}))
    assert copy[5] == str(file)
    assert remote(start)[5] == "my config.py"


def test_start_warns_where_the_run_goes_with_the_workers():
    done = call("start", "--dry-run", settings=POD | RUN)
    assert commands(done)
    assert "not on shared storage" in done.stderr
    assert call("start", "--dry-run").stderr == ""


def test_stop_and_logs():
    (stop,) = commands(call("stop", "--dry-run", settings=POD | {"POD_STOP_SECONDS": "9"}))
    assert remote(stop)[2:] == ["stop", "9"]
    (logs,) = commands(call("logs", "--dry-run", "3", "7"))
    assert option(logs, "--worker") == "3"
    assert remote(logs)[2:] == ["logs", "7"]


def test_settings_file_gives_way_to_the_environment(tmp_path):
    file = tmp_path / "my pod.settings"
    file.write_text("POD_NAME=from-file\nPOD_ZONE='zone of file'\n")
    (delete,) = commands(call("delete", "--dry-run", "--settings", str(file), settings={"POD_NAME": "pod 9"}))
    assert delete[5] == "pod 9"
    assert option(delete, "--zone") == "zone of file"
    done = call("delete", "--dry-run", "--settings", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "no settings file" in done.stderr


def test_the_readme_names_every_script_and_shows_a_dry_run_as_it_is():
    text = (SCRIPTS / "README.md").read_text()
    assert [action for action in ACTIONS if f"{action}.sh" not in text] == []
    shown = text.split("```text\n")[1].split("```")[0].replace("\\\n    ", "")
    settings = {
        "POD_NAME": "my-pod", "POD_ZONE": "us-central2-b", "POD_TYPE": "v4-32", "POD_BUCKET": "my-bucket",
    }  # fmt: skip
    done = call("create", "--dry-run", settings=settings)
    lines = re.sub(r"^# .* FOLDER", "# uv build --quiet --wheel --out-dir FOLDER", done.stdout)
    assert shown == lines.replace(str(SCRIPTS.parent), "/home/me/wearjax")


def test_example_settings_name_every_setting():
    names = (SCRIPTS / "settings.sh").read_text().split('SETTING_NAMES="')[1].split('"')[0].split()
    example = (SCRIPTS / "settings.example").read_text()
    assert [n for n in names if f"{n}=" not in example] == []
    assert subprocess.run(["bash", "-n", str(SCRIPTS / "settings.example")]).returncode == 0


# --- A made-up cloud: gcloud runs commands of the only worker in a folder of this machine ---

GCLOUD = '''#!{python}
"""gcloud as far as the scripts use it. `cloud.json` holds the pod's state and what will happen to it."""
import json, os, pathlib, shutil, signal, subprocess, sys
here = pathlib.Path(__file__).resolve().parent
file, home = here / "cloud.json", here / "worker"
cloud = json.loads(file.read_text())
args = sys.argv[1:]
assert args[:3] == ["compute", "tpus", "tpu-vm"], args
verb, rest = args[3], args[4:]
command = rest[rest.index("--command") + 1] if "--command" in rest else None
cloud["calls"].append([verb, command] if command else [verb])

def save():
    file.write_text(json.dumps(cloud))

def power_off():
    pid = home / "wearjax-pod" / "pid"
    if pid.exists():
        try:
            os.kill(int(pid.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            pass
    shutil.rmtree(home, ignore_errors=True)

def fail(text):
    save()
    sys.exit("ERROR: (gcloud.compute.tpus.tpu-vm) " + text)

if verb == "create":
    if cloud["stockouts"]:
        cloud["stockouts"] -= 1
        fail("There is no more capacity in the zone")
    if cloud["state"] != "ABSENT":
        fail("ALREADY_EXISTS")
    home.mkdir()
    cloud["state"] = "CREATING"
elif verb == "describe":
    steps = [int(p.name) for p in pathlib.Path(cloud["out"], "checkpoints").glob("*")]
    if cloud["state"] == "CREATING":
        cloud["state"] = "READY"
        print("CREATING")
    elif cloud["state"] == "ABSENT":
        fail("NOT_FOUND: no such node")
    else:
        if cloud["preempt_at"] and max(steps, default=0) >= cloud["preempt_at"][0]:
            cloud["preempt_at"].pop(0)
            power_off()
            cloud["state"] = "PREEMPTED"
        print(cloud["state"])
elif verb == "delete":
    power_off()
    cloud["state"] = "ABSENT"
elif verb in ("ssh", "scp"):
    if cloud["state"] == "CREATING":
        cloud["state"] = "READY"
    if cloud["state"] != "READY":
        fail("no such worker")
    if verb == "scp":
        *sources, target = rest[: rest.index("--zone")]
        for source in sources:
            shutil.copy(source, home / target.split(":")[1])
    elif " setup " in command:
        shutil.copytree(here / "env", home / "wearjax-pod" / "env")
        (home / "wearjax-pod" / "ready").touch()
    else:
        save()
        sys.exit(subprocess.run(["bash", "-c", command], cwd=home, env=os.environ | {{"HOME": str(home)}}).returncode)
save()
'''

# A training of 40 steps of 0.02 s (or what the file `pace` says); saves every 5 and on SIGTERM, and resumes.
WEARJAX = """#!{python}
import json, pathlib, signal, sys, time
assert sys.argv[1] == "pretrain", sys.argv
args = sys.argv[2:]
out = pathlib.Path(args[args.index("--out") + 1])
with open(out.parent / "seen", "a") as seen:
    seen.write(json.dumps(args) + "\\n")
(out / "checkpoints").mkdir(parents=True, exist_ok=True)
(out / "config.json").write_text(json.dumps({{"run": {{"steps": 40}}}}))
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
step = max((int(p.name) for p in (out / "checkpoints").iterdir()), default=0)
print("starting at", step, flush=True)
failing, pace = out.parent / "fail_after", out.parent / "pace"
while step < 40:
    step += 1
    time.sleep(float(pace.read_text()) if pace.exists() else 0.02)
    if failing.exists() and step > int(failing.read_text()):
        sys.exit("error: no days")
    if step % 5 == 0 or asked:
        (out / "checkpoints" / str(step)).mkdir(exist_ok=True)
    if asked:
        sys.exit(130)
(out / "bundle").mkdir(exist_ok=True)
(out / "bundle" / "bundle.json").write_text("{{}}")
"""


class Cloud:
    def __init__(self, folder: Path, *, preempt_at=(), stockouts: int = 0):
        self.folder, self.out = folder, folder / "shared" / "my run"
        self.out.parent.mkdir(parents=True)
        (folder / "env" / "bin").mkdir(parents=True)
        for file, text in ((folder / "gcloud", GCLOUD), (folder / "env" / "bin" / "wearjax", WEARJAX)):
            file.write_text(text.format(python=sys.executable))
            file.chmod(0o755)
        (folder / "env" / "bin" / "python").touch()
        state = {"state": "ABSENT", "calls": [], "preempt_at": list(preempt_at), "stockouts": stockouts}
        (folder / "cloud.json").write_text(json.dumps(state | {"out": str(self.out)}))
        self.settings = POD | {
            "RUN_CONFIG": "tiny", "RUN_DATA": "/data/my store", "RUN_OUT": str(self.out), "POD_BUCKET": "b",
            "POD_MOUNT": str(self.out.parent), "POD_POLL_SECONDS": "0.05", "POD_CAPACITY": "spot",
        }  # fmt: skip

    def call(self, action: str, *arguments: str, **changes: str):
        return call(action, *arguments, settings=self.settings | changes, path=self.folder)

    def calls(self) -> list[str]:
        """Verbs of gcloud, and words of worker.sh, in their order; looking is left out."""
        found = []
        for verb, *command in json.loads((self.folder / "cloud.json").read_text())["calls"]:
            words = shlex.split(command[0]) if command else []
            if verb == "ssh" and words[:2] == ["bash", "wearjax-pod/worker.sh"]:
                found.append(words[2])
            elif verb in ("create", "delete"):
                found.append(verb)
        return found

    def runs(self) -> list[list[str]]:
        """Arguments of each start of wearjax."""
        return [json.loads(line) for line in (self.out.parent / "seen").read_text().splitlines()]

    def wait_for(self, word: str) -> str:
        for _ in range(80):
            said = self.call("status").stdout.strip()
            if said.startswith(word) and said != "running 0":
                return said
            time.sleep(0.05)
        raise AssertionError(f"never {word}: {said}")


def test_supervise_recreates_and_restarts_until_finished(tmp_path):
    cloud = Cloud(tmp_path, preempt_at=(10, 25), stockouts=1)
    done = cloud.call("supervise", "--name", "a b")
    assert done.returncode == 0, done.stderr
    assert "no capacity" in done.stderr
    assert done.stderr.count("the pod was preempted") == 2
    assert "finished at step 40" in done.stderr
    again = ["delete", "create", "setup", "start"]
    assert cloud.calls() == ["create", "create", "setup", "start", *again, *again]
    run = ["tiny", "--data", "/data/my store", "--out", str(cloud.out), "--multi-host", "--name", "a b"]
    assert cloud.runs() == [run] * 3
    assert (cloud.out / "bundle" / "bundle.json").exists()


def test_supervise_of_a_finished_run_starts_nothing_and_deletes_when_asked(tmp_path):
    cloud = Cloud(tmp_path)
    assert cloud.call("supervise").returncode == 0
    done = cloud.call("supervise", POD_DELETE_WHEN_FINISHED="1")
    assert done.returncode == 0
    assert cloud.calls() == ["create", "setup", "start", "delete"]
    assert len(cloud.runs()) == 1


def test_supervise_gives_up_on_a_run_that_only_fails(tmp_path):
    cloud = Cloud(tmp_path)
    (cloud.out.parent / "fail_after").write_text("12")
    done = cloud.call("supervise")
    assert done.returncode == 1
    assert "given up after 3 failures at step 10: the run failed: failed 10 (exit status 1)" in done.stderr
    assert "error: no days" in done.stdout + done.stderr
    assert len(cloud.runs()) == 3
    assert "delete" not in cloud.calls()


def test_stop_saves_and_resume_continues(tmp_path):
    cloud = Cloud(tmp_path)
    assert cloud.call("status").returncode != 0  # no pod
    assert cloud.call("create").returncode == 0
    assert cloud.call("status").stdout.split() == ["idle", "0"]
    (cloud.out.parent / "pace").write_text("0.2")
    assert cloud.call("start").stdout == "started\n"
    assert cloud.call("start").stdout == "running already\n"
    cloud.wait_for("running")
    stopped = cloud.call("stop")
    assert (stopped.returncode, stopped.stdout) == (0, "stopped\n")
    word, step = cloud.call("status").stdout.split()
    assert word == "stopped"
    assert 5 <= int(step) < 40
    assert cloud.call("stop").stdout == "not running\n"
    (cloud.out.parent / "pace").unlink()
    assert cloud.call("resume").stdout == "started\n"
    assert cloud.wait_for("finished") == "finished 40"
    assert f"starting at {step}" in cloud.call("logs").stdout


def test_start_before_install_is_refused(tmp_path):
    cloud = Cloud(tmp_path)
    assert cloud.call("create").returncode == 0
    (tmp_path / "worker" / "wearjax-pod" / "ready").unlink()
    assert cloud.call("status").stdout.split()[0] == "bare"
    done = cloud.call("start")
    assert done.returncode == 1
    assert "run install.sh" in done.stderr
