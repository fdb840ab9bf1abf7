"""Runs a workflow through libkiln.so with ctypes alone: python3 run_workflow.py [FILE [OUT [NAME=VALUE ...]]]

KILN_LIBRARY names the library; by default the system looks for libkiln.so.
"""
import ctypes, json, os, sys

lib = ctypes.CDLL(os.environ.get("KILN_LIBRARY", "libkiln.so"))
u32, u64, i32, text, size_t = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32, ctypes.c_char_p, ctypes.c_size_t
EVENT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, text)


class Sized(ctypes.Structure):
    """A struct of kiln/engine.h: its first member is its own size."""

    def __init__(self, **members):
        super().__init__(**members)
        self.size = ctypes.sizeof(self)


class Message(Sized):
    _fields_ = [("size", u32), ("status", i32), ("text", ctypes.c_char * 1024)]


class Setting(ctypes.Structure):
    _fields_ = [("name", text), ("value", text)]


class WorkflowOptions(Sized):
    _fields_ = [("size", u32), ("console", u32), ("path", text), ("set", ctypes.POINTER(Setting)), ("n_set", u32),
                ("set_stride", u32), ("plugins", text), ("models", text), ("input", text), ("over", ctypes.POINTER(text)),
                ("n_over", size_t), ("over_file", text)]


class RunOptions(Sized):
    _fields_ = [("size", u32), ("mode", u32), ("out", text), ("device", text), ("precision", text), ("threads", u32),
                ("jobs", u32), ("memory", u64), ("cache", text), ("cache_limit", u64),
                ("state_seconds", ctypes.c_double), ("no_cache", u32), ("fail_fast", u32), ("validate", u32),
                ("again", u32), ("manifest", text), ("sheet", text), ("events", text), ("trace", text),
                ("console", u32), ("quiet", u32), ("verbose", u32), ("signals", u32), ("on_event", EVENT),
                ("arg", ctypes.c_void_p)]


class Summary(Sized):
    _fields_ = [("size", u32), ("cancelled", u32)] + [(name, u64) for name in (
        "nodes", "ran", "cached", "shared", "failed", "skipped", "outputs", "rows", "rows_done", "rows_before",
        "rows_failed")]


lib.kiln_workflow_open.restype = ctypes.c_void_p
lib.kiln_workflow_fault.restype = text
lib.kiln_workflow_fault_count.restype = size_t
for name in ("kiln_workflow_close", "kiln_workflow_fault_count"):
    getattr(lib, name).argtypes = [ctypes.c_void_p]
lib.kiln_workflow_fault.argtypes = [ctypes.c_void_p, size_t]
lib.kiln_workflow_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(RunOptions), ctypes.POINTER(Summary),
                                  ctypes.POINTER(Message)]


def main():
    path, out = (sys.argv[1:3] + ["workflows/txt2img.yaml", "out"][len(sys.argv[1:3]):])
    pairs = [pair.split("=", 1) for pair in sys.argv[3:]]
    settings = (Setting * max(len(pairs), 1))(*[Setting(n.encode(), v.encode()) for n, v in pairs])
    why, done = Message(), Summary()
    written = []

    @EVENT
    def on_event(_, line):
        event = json.loads(line)
        if event["event"] == "file":
            written.append(event["path"])

    w = lib.kiln_workflow_open(ctypes.byref(WorkflowOptions(path=path.encode(), set=settings, n_set=len(pairs),
                                                               set_stride=ctypes.sizeof(Setting))),
                               ctypes.byref(why))
    if not w:
        sys.exit(why.text.decode())
    faults = [lib.kiln_workflow_fault(w, i).decode() for i in range(lib.kiln_workflow_fault_count(w))]
    if faults:
        sys.exit("\n".join(faults))
    status = lib.kiln_workflow_run(w, ctypes.byref(RunOptions(out=out.encode(), on_event=on_event)),
                                   ctypes.byref(done), ctypes.byref(why))
    lib.kiln_workflow_close(w)
    if status != 0:
        sys.exit(why.text.decode())
    print("%d of %d nodes ran, %d came from the cache" % (done.ran, done.nodes, done.cached))
    print("\n".join(written))


main()
