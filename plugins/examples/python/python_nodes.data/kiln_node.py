"""What a node in Python is made with: `node`, kinds of parameters, `empty`. python_nodes.c reads the rows from here.

A node gets its inputs and parameters by name. A tensor is a memoryview with its shape, read-only, of which
numpy.asarray(x) is an array without a copy; other values are numbers, texts, lists and dicts. It returns its output
(a tuple of several): of whatever has the buffer protocol (numpy arrays; `empty`) a tensor is made, f64 as f32.
"""
import importlib
import inspect
import os
import traceback

ROWS = []


class Param:
    def __init__(self, kind, default, least=0.0, most=0.0, step=0.0, choices=(), doc=""):
        self.row = dict(kind=kind, default=default, min=least, max=most, step=step, choices=tuple(choices), doc=doc)


def Float(default=0.0, least=-1e6, most=1e6, step=0.01, doc=""):
    return Param("FLOAT", float(default), float(least), float(most), float(step), doc=doc)


def Int(default=0, least=-(2**31), most=2**31 - 1, step=1, doc=""):
    return Param("INT", float(default), float(least), float(most), float(step), doc=doc)


def Bool(default=False, doc=""):
    return Param("BOOLEAN", float(default), 0.0, 1.0, doc=doc)


def Text(default="", doc=""):
    return Param("STRING", str(default), doc=doc)


def Choice(choices, default=None, doc=""):
    choices = tuple(choices)
    return Param("ENUM", float(choices.index(default) if default is not None else 0), choices=choices, doc=doc)


def node(title=None, category="python", doc="", inputs=None, outputs=None, pure=True, reentrant=False, **params):
    """Makes a node of a function, under the function's name. inputs and outputs: {name: type} or {name: (type, doc)}. pure: the
    same inputs give the same bytes, so results are kept. reentrant: several threads may be in it at once."""

    def decorated(fn):
        def ports(given):
            pairs = [(name, (row, "") if isinstance(row, str) else tuple(row)) for name, row in (given or {}).items()]
            return [dict(name=name, type=kind, doc=text or f"A value of type {kind}.") for name, (kind, text) in pairs]

        for name, p in params.items():
            if not isinstance(p, Param):
                raise TypeError(f"{fn.__name__}: parameter '{name}' is {p!r}; make it Float, Int, Bool, Text or Choice")
        rows = [dict(p.row, name=name, doc=p.row["doc"] or f"A parameter of {fn.__name__}.") for name, p in params.items()]
        ROWS.append(dict(type=fn.__name__, title=title or fn.__name__, category=category, doc=doc or fn.__doc__ or fn.__name__, run=fn, inputs=ports(inputs),
                         outputs=ports(outputs), params=rows, pure=bool(pure), reentrant=bool(reentrant),
                         progress="progress" in inspect.signature(fn).parameters))
        return fn

    return decorated


def empty(*shape):
    """f32 zeros that can be written, for who has no numpy: element [i, j] of a memoryview."""
    count = 1
    for n in shape:
        count *= n
    return memoryview(bytearray(4 * count)).cast("f", shape) if count else memoryview(b"").cast("f")


def told(error):
    """An exception in one line: what it says, where it was raised, and by which calls."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError):  # the frames are the importer's
        return f"{type(error).__name__}: {error.msg} ({os.path.basename(error.filename or '?')}:{error.lineno})"
    places = [f"{os.path.basename(f.filename)}:{f.lineno} in {f.name}" for f in reversed(frames) if "importlib" not in f.filename and f.filename != __file__]
    text = str(error)
    return f"{type(error).__name__}{': ' if text else ''}{text} ({', called from '.join(places[:8]) or 'no place'})"


def load(folder):
    """The rows of all files in the folder, and a sentence for each file that cannot be loaded."""
    faults = []
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".py") or name == "kiln_node.py":
            continue
        kept = len(ROWS)
        try:
            importlib.import_module(name[:-3])
        except BaseException as error:  # SystemExit too: a plugin must never exit
            del ROWS[kept:]
            faults.append(f"{name} is left out: {told(error)}")
    return ROWS, faults
