"""Nodes on pictures, with nothing but Python. A memoryview of four dimensions is read by [n, y, x, channel]; `cast` makes one
dimension of it."""
from kiln_node import Choice, Float, empty, node


def flat(x):
    return x.cast("B").cast("f") if x.nbytes else x


@node(title="Python brightness", category="examples", doc="Adds to every sample of a picture.", inputs={"image": ("IMAGE", "Picture to change.")},
      outputs={"IMAGE": ("IMAGE", "The picture.")}, amount=Float(0.1, -1, 1, doc="What is added."), limit=Choice(["clip", "wrap"], doc="What becomes of numbers past white."))
def PyBrightness(image, amount, limit, progress):
    out = empty(*image.shape)
    to = flat(out)
    for i, x in enumerate(flat(image)):
        if i % 4096 == 0:
            progress(i, len(to))  # raises when the run is to stop
        y = x + amount
        to[i] = min(max(y, 0.0), 1.0) if limit == "clip" else y % 1.0
    return out
