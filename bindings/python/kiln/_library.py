"""libkiln.so by ctypes: the structs of kiln/engine.h, in the header's order."""
import ctypes
import ctypes.util
import os

KILN_OK = 0


class Message(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("status", ctypes.c_int32), ("text", ctypes.c_char * 1024)]


class Setting(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
EVENT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


class WorkflowOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("console", ctypes.c_uint32),
        ("path", ctypes.c_char_p),
        ("set", ctypes.POINTER(Setting)),
        ("n_set", ctypes.c_uint32),
        ("set_stride", ctypes.c_uint32),
        ("plugins", ctypes.c_char_p),
        ("models", ctypes.c_char_p),
        ("input", ctypes.c_char_p),
        ("over", ctypes.POINTER(ctypes.c_char_p)),
        ("n_over", ctypes.c_size_t),
        ("over_file", ctypes.c_char_p),
        ("on_log", LOG),
        ("arg", ctypes.c_void_p),
        ("thorough", ctypes.c_uint32),
    ]


class RunOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("mode", ctypes.c_uint32),
        ("out", ctypes.c_char_p),
        ("device", ctypes.c_char_p),
        ("precision", ctypes.c_char_p),
        ("threads", ctypes.c_uint32),
        ("jobs", ctypes.c_uint32),
        ("memory", ctypes.c_uint64),
        ("cache", ctypes.c_char_p),
        ("cache_limit", ctypes.c_uint64),
        ("state_seconds", ctypes.c_double),
        ("no_cache", ctypes.c_uint32),
        ("fail_fast", ctypes.c_uint32),
        ("validate", ctypes.c_uint32),
        ("again", ctypes.c_uint32),
        ("manifest", ctypes.c_char_p),
        ("sheet", ctypes.c_char_p),
        ("events", ctypes.c_char_p),
        ("trace", ctypes.c_char_p),
        ("console", ctypes.c_uint32),
        ("quiet", ctypes.c_uint32),
        ("verbose", ctypes.c_uint32),
        ("signals", ctypes.c_uint32),
        ("on_event", EVENT),
        ("arg", ctypes.c_void_p),
        ("file", ctypes.c_char_p),
        ("skip_existing", ctypes.c_uint32),
        ("json", ctypes.c_uint32),
        ("preview_every", ctypes.c_uint32),
    ]


SUMMARY = ("nodes", "ran", "cached", "shared", "failed", "skipped", "outputs", "rows", "rows_done", "rows_before",
           "rows_failed", "rows_left", "rows_faulty")


class Summary(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("cancelled", ctypes.c_uint32)] + [(n, ctypes.c_uint64) for n in SUMMARY]


def candidates():
    """Where libkiln.so may be: KILN_LIBRARY, beside this package as `make install` puts both, a build, the system."""
    here = os.path.dirname(os.path.abspath(__file__))
    if os.environ.get("KILN_LIBRARY"):
        return [os.environ["KILN_LIBRARY"]]
    return [
        os.path.join(here, "../../../libkiln.so"),
        os.path.join(here, "../../../build/release/libkiln.so"),
        ctypes.util.find_library("kiln") or "libkiln.so",
    ]


def load():
    tried = []
    for path in candidates():
        if os.sep in path and not os.path.exists(path):
            continue
        try:
            library = ctypes.CDLL(path)
            break
        except OSError as why:
            tried.append(str(why))
    else:
        raise ImportError("libkiln.so was not found; name it with KILN_LIBRARY" + "".join(f"; {t}" for t in tried))
    handle, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, takes in (
        ("kiln_version", text, []),
        ("kiln_workflow_open", handle, [ctypes.POINTER(WorkflowOptions), ctypes.POINTER(Message)]),
        ("kiln_workflow_close", None, [handle]),
        ("kiln_workflow_fault_count", ctypes.c_size_t, [handle]),
        ("kiln_workflow_fault", text, [handle, ctypes.c_size_t]),
        ("kiln_workflow_is_sweep", ctypes.c_int, [handle]),
        ("kiln_workflow_run", ctypes.c_int,
         [handle, ctypes.POINTER(RunOptions), ctypes.POINTER(Summary), ctypes.POINTER(Message)]),
        ("kiln_cancel", None, []),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, takes
    return library
