"""coverage_data.py - what scripts/coverage and scripts/mutate share: running one test, and reading what it left of gcov's counts.

A test runs with a GCOV_PREFIX of its own, so that every process it starts adds to counts of that test alone. What is not zero is kept as
BUILD/coverage-data/TEST.zip; the sum over all tests is what gcov reads. The .gcda format is gcc's (gcc/gcov-io.h): words, and records of a tag and
a length; only arcs are counted, so that the sum of two files is the sum of their counters.
"""

import array
import json
import os
import re
import signal
import struct
import subprocess
import time
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAGIC = 0x67636461
FUNCTION, ARCS = 0x01000000, 0x01A10000


def all_tests():
    """Paths of all tests without their ending, as scripts/run-tests names them."""
    found = []
    for area in sorted(os.listdir(os.path.join(ROOT, "tests"))):
        folder = os.path.join(ROOT, "tests", area)
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if name.startswith("test_") and name.endswith((".c", ".sh")):
                found.append(f"tests/{area}/{os.path.splitext(name)[0]}")
    return found


def wait_for_failure(process, log, limit):
    """Waits until the process ends or its log has a FAIL; its status, or None when it still runs."""
    end, seen = time.monotonic() + limit, 0
    while time.monotonic() < end:
        try:
            return process.wait(0.2)
        except subprocess.TimeoutExpired:
            size = os.path.getsize(log)
            if size > seen and re.search(rb"^FAIL ", open(log, "rb").read(), re.M):
                return 1
            seen = size
    raise subprocess.TimeoutExpired(process.args, limit)


def run_test(name, build, limit, log, root=ROOT, more_env=None, until_failure=False):
    """Runs a test as scripts/run-tests does, or the cases of it that are named behind it: (seconds, "" or what failed)."""
    name, *cases = name.split()
    env = dict(os.environ, KILN_ROOT=root, KILN_BUILD=os.path.relpath(build, root), LC_ALL="C.UTF-8", KILN_CONFIG="off", KILN_CACHE="off")
    env["XDG_DATA_HOME"] = os.path.join(build, "test-log", "data")
    for unwanted in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        env.pop(unwanted, None)
    env.update(more_env or {})
    script = os.path.join(root, name + ".sh")
    command = ["bash", name + ".sh"] if os.path.exists(script) else [os.path.join(build, name), *cases]
    os.makedirs(os.path.dirname(log), exist_ok=True)
    begun, timed_out = time.monotonic(), False
    with open(log, "wb") as out:
        try:
            process = subprocess.Popen(command, cwd=root, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as e:
            return 0.0, str(e)
        try:
            status = wait_for_failure(process, log, limit) if until_failure else process.wait(limit)
        except subprocess.TimeoutExpired:
            timed_out, status = True, -1
        try:  # what it started and did not wait for
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    seconds = time.monotonic() - begun
    if timed_out:
        return seconds, f"took more than {limit:.0f} s"
    lines = open(log, errors="replace").read().splitlines()
    failed = [line for line in lines if line.startswith("FAIL ") or re.match(r"tests/\S*\.sh: line \d+: .*: command not found", line)]
    if failed:
        return seconds, failed[0]
    if status != 0:
        return seconds, f"ended with status {status}"
    if not any(line.startswith(("ok ", "skip ")) for line in lines):
        return seconds, "printed no result"
    return seconds, ""


# ---- .gcda files ----------------------------------------------------------------------------------------------------------


class Counts:
    """A .gcda file: its head and, by function, the arcs' counters."""

    def __init__(self, data):
        if len(data) < 16 or struct.unpack_from("<I", data)[0] != MAGIC:
            raise ValueError("no counts of gcov")
        self.head, self.functions, at, key = data[:16], {}, 16, None
        self.stamp = struct.unpack_from("<I", data, 8)[0]
        while at + 8 <= len(data):
            tag, length = struct.unpack_from("<Ii", data, at)
            at += 8
            if tag == 0:
                break
            body = data[at : at + max(length, 0)]
            at += max(length, 0)
            if tag == FUNCTION:
                key = struct.unpack("<III", body) if length == 12 else None
                if key:
                    self.functions[key] = None
            elif tag == ARCS and key is not None:
                if length < 0:  # all are zero: only their size is there
                    self.functions[key] = array.array("Q", bytes(-length))
                else:
                    self.functions[key] = array.array("Q", body)

    def executed(self):
        return any(c is not None and any(c) for c in self.functions.values())

    def add(self, other):
        for key, theirs in other.functions.items():
            mine = self.functions.get(key)
            if mine is None:
                self.functions[key] = theirs
            elif theirs is not None and any(theirs):
                self.functions[key] = array.array("Q", [(a + b) & 0x7FFFFFFFFFFFFFFF for a, b in zip(mine, theirs)])

    def data(self):
        out = [self.head]
        for key, counters in self.functions.items():
            out.append(struct.pack("<IiIII", FUNCTION, 12, *key))
            if counters is not None:
                out.append(struct.pack("<Ii", ARCS, len(counters) * 8) + counters.tobytes())
        out.append(struct.pack("<Ii", 0, 0))
        return b"".join(out)


def object_of(path, build):
    """The object's name in the build, without its ending, of a .gcda file that lies in it or below a prefix."""
    at = path.rfind(build + os.sep)
    return path[at + len(build) + 1 : -len(".gcda")] if at >= 0 else None


def collect(folder, build):
    """Counts of all .gcda files below FOLDER, by object; those where nothing ran are left out."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(".gcda"):
                continue
            path = os.path.join(where, name)
            tu = object_of(path, build)
            try:
                counts = Counts(open(path, "rb").read())
            except (OSError, ValueError, struct.error):
                continue  # a process was killed while it wrote
            if tu and counts.executed():
                found[tu] = counts
    return found


def keep(found, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
        for tu, counts in found.items():
            z.writestr(tu + ".gcda", counts.data())
    os.replace(path + ".new", path)


def stamp_of(gcno):
    with open(gcno, "rb") as f:
        return struct.unpack_from("<I", f.read(16), 8)[0]


def load_table(build):
    try:
        return json.load(open(os.path.join(build, "tests.json")))
    except (OSError, ValueError):
        return {}


def all_objects(build):
    found = []
    for where, _, names in os.walk(build):
        rel = os.path.relpath(where, build)
        if rel.split(os.sep)[0] in ("gcda", "coverage-data", "scratch"):
            continue
        found += [os.path.normpath(os.path.join(rel, n[:-5])) for n in names if n.endswith(".gcno")]
    return sorted(found)


# ---- gcov -----------------------------------------------------------------------------------------------------------------


def gcov(objects, build, counts, scratch):
    """gcov's JSON of each object, by object; COUNTS is a function that gives an object's .gcda or None."""
    os.makedirs(scratch, exist_ok=True)
    got = {}
    for tu in objects:
        base = os.path.join(scratch, os.path.basename(tu))
        for ending in (".gcno", ".gcda"):
            if os.path.lexists(base + ending):
                os.unlink(base + ending)
        os.symlink(os.path.join(build, tu + ".gcno"), base + ".gcno")
        data = counts(tu)
        if data:
            with open(base + ".gcda", "wb") as f:
                f.write(data)
        done = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout", base + ".gcno"], cwd=scratch, capture_output=True)
        os.unlink(base + ".gcno")
        if data:
            os.unlink(base + ".gcda")
        try:
            got[tu] = json.loads(done.stdout)
        except ValueError:
            raise SystemExit(f"gcov cannot read {tu}.gcno: {done.stderr.decode(errors='replace').strip()}")
    return got


def source_of(file, report):
    path = os.path.join(report["current_working_directory"], file)
    return os.path.relpath(os.path.realpath(path), ROOT)
