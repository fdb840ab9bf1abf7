"""kiln - runs workflows of diffusion models from Python, through libkiln.so.

    import kiln
    result = kiln.run("workflows/txt2img.yaml", seed=3)
    result.pictures[0]              # a numpy array [height, width, 3]; bytes of the file where there is no numpy

    for event in kiln.events("workflows/txt2img.yaml", seed=3):
        if event["event"] == "progress": print(event["done"], event["total"])

Keywords are the workflow's parameters (`kiln params FILE`); `set={"sampler.steps": 4}` reaches inputs of nodes. One
workflow runs at a time in a process. Ctrl-C stops it within a step.
"""
import base64
import difflib
import json
import os
import queue
import re
import threading

from . import _library as c
from ._picture import read_png

__all__ = ["run", "events", "check", "version", "cancel", "Result", "Error", "Faults", "Cancelled"]

_lib = c.load()
_one = threading.Lock()


class Error(Exception):
    """What kiln said. `result`: what was finished before, or None."""

    def __init__(self, text, result=None):
        super().__init__(text)
        self.result = result


class Faults(Error):
    """The workflow cannot run: `faults` are sentences with FILE:LINE:COLUMN."""

    def __init__(self, faults):
        super().__init__("\n".join(faults))
        self.faults = faults


class Cancelled(Error):
    """kiln.cancel() was called; what was finished is kept."""


class Result:
    """files: paths that were written, in order; rows: of a sweep, a dict each (row, label, status, files); summary: how
    many nodes ran, were cached, failed ... (kiln_run_summary); warnings: sentences."""

    def __init__(self):
        self.files, self.rows, self.summary, self.warnings = [], [], {}, []

    @property
    def pictures(self):
        """The pictures among the files: numpy arrays, or their bytes where there is no numpy or it is no plain PNG."""
        return [_picture(p) for p in self.files if p.lower().endswith((".png", ".jpg", ".jpeg", ".webp"))]


def _pixels(event):
    """A numpy array [height, width, 3]; bytes where there is no numpy."""
    data = base64.b64decode(event["rgb"])
    try:
        import numpy
    except ImportError:
        return data
    return numpy.frombuffer(data, numpy.uint8).reshape(event["height"], event["width"], 3)


def _picture(path):
    with open(path, "rb") as f:
        data = f.read()
    try:
        return read_png(data)
    except (ImportError, ValueError):
        return data


def version():
    return _lib.kiln_version().decode()


def cancel():
    """Stops the workflow that runs within a step. From any thread."""
    _lib.kiln_cancel()


def _text(value):
    if value is None:
        return None
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, (list, tuple)):
        value = ":".join(os.fspath(v) for v in value)
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if "\0" in text:
        raise ValueError(f"a text cannot hold a NUL: {text[:60]!r}")
    return text.encode()


def _setting(name, value):
    if value is None:
        raise TypeError(f"{name}: None is no value; leave it out for the workflow's own")
    return c.Setting(name=_text(name), value=_text(value))


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def _bytes(name, value):
    """A number, or "1200M", "4G", "1.5GiB" as on the command line."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]i?)?b?\s*", value, re.IGNORECASE)
    if not match:
        raise TypeError(f"{name}: {value!r} is no size like 500M, 4G or 1.5GiB")
    return int(float(match[1]) * _UNITS[(match[2] or "").upper()])


def _as_declared(options):
    """The names of the command line's options as those of the library's."""
    options = {k: v for k, v in (options or {}).items() if v is not None}
    if "output" in options:
        if "out" in options or "file" in options:
            raise TypeError("output and out: which? output names the file and its folder")
        folder, options["file"] = os.path.split(os.fspath(options.pop("output")))
        options["out"] = folder or "."
    if "save_state" in options:
        options["state_seconds"] = options.pop("save_state") or -1  # 0: never, as there
    if "cache_size" in options:
        options["cache_limit"] = _bytes("cache_size", options.pop("cache_size"))
    if "memory" in options:
        options["memory"] = _bytes("memory", options["memory"])
    if isinstance(options.get("over"), str):
        options["over"] = [options["over"]]
    for name in ("quiet", "verbose"):
        options.pop(name, None)  # nothing is printed
    return options


_NUMBERS = {"threads", "jobs", "memory", "cache_limit", "state_seconds", "no_cache", "fail_fast", "validate", "again",
            "skip_existing", "preview_every"}
_TEXTS = {"out", "device", "precision", "cache", "manifest", "sheet", "events", "trace", "file"}


class _Job:
    """One run, on a thread of its own: Python's Ctrl-C reaches only a main thread that is not inside the library."""

    def __init__(self, path, settings, options, told):
        self.path, self.settings, self.options, self.told = path, settings, options, told
        self.result, self.failure, self.thread = Result(), None, None

    def opened(self):
        """kiln_workflow_options, and what they point to."""
        options = dict(self.options)
        over = [_text(o if isinstance(o, str) else "%s=%s" % o) for o in options.pop("over", None) or []]
        sets = (c.Setting * len(self.settings))(*[_setting(k, v) for k, v in self.settings.items()])
        self.held = [sets, (c.ctypes.c_char_p * len(over))(*over), c.LOG(self.on_log)]
        o = c.WorkflowOptions(size=c.ctypes.sizeof(c.WorkflowOptions), path=_text(self.path), set=sets,
                              n_set=len(self.settings), set_stride=c.ctypes.sizeof(c.Setting), over=self.held[1],
                              n_over=len(over), on_log=self.held[2])
        for name in ("plugins", "models", "input", "over_file"):
            setattr(o, name, _text(options.pop(name, None)))
        return o, options

    def on_log(self, _, level, text):
        self.result.warnings.append(text.decode(errors="replace"))

    def on_event(self, _, text):
        event = json.loads(text)
        if event["event"] == "file":
            self.result.files.append(event["path"])
        if event["event"] == "row_done":
            self.result.rows.append(event)
        if event["event"] == "preview":
            event["rgb"] = _pixels(event)
        self.told.put(event)

    def work(self, only_check):
        why = c.Message(size=c.ctypes.sizeof(c.Message))
        workflow = None
        try:
            o, options = self.opened()
            o.thorough = only_check
            workflow = _lib.kiln_workflow_open(o, why)
            if not workflow:
                raise Error(why.text.decode(errors="replace"))
            n = _lib.kiln_workflow_fault_count(workflow)
            if n or only_check:
                raise Faults([_lib.kiln_workflow_fault(workflow, i).decode(errors="replace") for i in range(n)])
            self.execute(workflow, options, why)
        except BaseException as e:  # handed to the thread that waits
            self.failure = e
        finally:
            if workflow:
                _lib.kiln_workflow_close(workflow)
            self.told.put(None)

    def execute(self, workflow, options, why):
        tell = c.EVENT(self.on_event)
        how = c.RunOptions(size=c.ctypes.sizeof(c.RunOptions), on_event=tell)
        for name, value in options.items():
            setattr(how, name, _text(value) if name in _TEXTS else value)
        summary = c.Summary(size=c.ctypes.sizeof(c.Summary))
        status = _lib.kiln_workflow_run(workflow, how, summary, why)
        self.result.summary = {n: getattr(summary, n) for n in c.SUMMARY}
        if status != c.KILN_OK:
            kind = Cancelled if summary.cancelled else Error
            raise kind(why.text.decode(errors="replace"), self.result)

    def begin(self, only_check=False):
        known = _NUMBERS | _TEXTS | {"plugins", "models", "input", "over", "over_file"}
        unknown = set(self.options) - known
        if unknown:
            name = sorted(unknown)[0]
            near = difflib.get_close_matches(name, known, 1)
            raise TypeError(f"no option is called {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        if not _one.acquire(blocking=False):
            raise Error("one workflow at a time in a process")
        self.thread = threading.Thread(target=self.work, args=(only_check,), daemon=True)
        self.thread.start()

    def wait(self):
        """Events as they come. An exception in here, Ctrl-C too, stops the run and leaves when it has stopped."""
        try:
            while True:
                try:
                    event = self.told.get(timeout=0.1)
                except queue.Empty:
                    continue
                if event is None:
                    break
                yield event
        except BaseException:
            while self.thread.is_alive():  # asked again: the library forgets what is asked before it begins
                _lib.kiln_cancel()
                self.thread.join(0.05)
            raise
        finally:
            self.thread.join()
            _one.release()
        if self.failure:
            raise self.failure


def _job(path, set, options, params):
    return _Job(path, {**params, **(set or {})}, _as_declared(options), queue.Queue())


def events(path, *, set=None, options=None, result=None, **params):
    """Runs the workflow and yields its events, dicts as `kiln run --events` writes them (docs/workflows.md). Leaving the
    loop stops the run. `result`: a Result to fill."""
    job = _job(path, set, options, params)
    if result is not None:
        job.result = result
    job.begin()
    yield from job.wait()


def run(path, *, set=None, on_event=None, options=None, **params):
    """Runs the workflow and returns a Result. `set`: inputs of nodes ({"sampler.steps": 4}); `options`: those of the
    command line with _ for -, such as out, device, threads, memory (in bytes), no_cache, models, over ([("seed", "1..4")]).
    Raises Faults, Cancelled, or Error with kiln's sentence; KeyboardInterrupt after the run has stopped."""
    job = _job(path, set, options, params)
    job.begin()
    for event in job.wait():
        if on_event:
            on_event(event)
    return job.result


def check(path, *, set=None, options=None, **params):
    """The workflow's faults, as sentences; [] for none."""
    job = _job(path, set, options, params)
    job.begin(only_check=True)
    try:
        for _ in job.wait():
            pass
    except Faults as f:
        return f.faults
