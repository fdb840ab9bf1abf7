# test_python.sh - the Python package over libkiln.so: pictures, events, faults, Ctrl-C, the header's structs, the notebook; from the tree and installed.
. "$KILN_ROOT/tests/cli/head.sh"
command -v python3 >/dev/null || { echo "skip python: no python3"; exit 0; }
case $KILN_BUILD in *-address | *-undefined | *-thread) echo "skip python: a sanitizer would have to be started with it"; exit 0 ;; esac
export PYTHONPATH="$PWD/bindings/python" KILN_LIBRARY="$PWD/$KILN_BUILD/libkiln.so" PYTHONDONTWRITEBYTECODE=1 KILN_CACHE=off
include="$PWD/include" notebook="$PWD/docs/notebook.ipynb" tests="$PWD/tests"
cp -R workflows/txt2img.yaml "$work/" && cd "$work" || exit 2

# ---- its structs are the header's
cat >make_sizes.py <<'P'
from kiln import _library as c
print('#include <kiln/engine.h>\n#include <stdio.h>\n#include <stddef.h>\nint main(void) {')
for t, n in ((c.Message, "kiln_message"), (c.Setting, "kiln_setting"), (c.WorkflowOptions, "kiln_workflow_options"), (c.RunOptions, "kiln_run_options"), (c.Summary, "kiln_run_summary")):
    print(f'printf("{n} %zu\\n", sizeof({n}));')
    for f, *_ in t._fields_: print(f'printf("{n}.{f} %zu\\n", offsetof({n}, {f}));')
print('return 0; }')
P
cat >sizes.py <<'P'
from kiln import _library as c
for t, n in ((c.Message, "kiln_message"), (c.Setting, "kiln_setting"), (c.WorkflowOptions, "kiln_workflow_options"), (c.RunOptions, "kiln_run_options"), (c.Summary, "kiln_run_summary")):
    print(n, c.ctypes.sizeof(t))
    for f, *_ in t._fields_: print(f"{n}.{f}", getattr(t, f).offset)
P
python3 make_sizes.py >sizes.c && cc -I"$include" sizes.c -o sizes && ./sizes >of_c.txt && python3 sizes.py >of_python.txt
verdict sizes_are_printed $?
check structs_are_the_headers cmp of_c.txt of_python.txt

# ---- what it does
"$kiln" run txt2img.yaml --set seed=3 --set sampler.steps=4 -q --out by_command >log 2>&1; verdict the_command_draws $?
cat >does.py <<'P'
import json, kiln, os, sys, threading
flow, steps = "txt2img.yaml", {"sampler.steps": 4}
def ok(name, good, *why): print("ok" if good else "FAIL", name, *([] if good else why))
said = []
r = kiln.run(flow, seed=3, set=steps, options={"out": "py"}, on_event=said.append)
same = open(r.files[0], "rb").read() == open("by_command/kiln_00001_.png", "rb").read()
ok("the_same_bytes_as_the_command", same, r.files)
ok("events_by_callback", said[0]["event"] == "run_start" and said[-1]["event"] == "run_done")
ok("a_summary", r.summary["ran"] == r.summary["nodes"] == 7, r.summary)
try:
    import numpy
    p = r.pictures[0]
    ok("a_numpy_picture", p.shape == (128, 128, 3) and p.dtype == numpy.uint8 and p.mean() > 100, p.shape)
except ImportError:
    ok("bytes_without_numpy", r.pictures[0][:4] == b"\x89PNG")
events = list(kiln.events(flow, seed=3, set=steps, options={"out": "py"}))
ok("events_by_iterator", [e["event"] for e in events].count("progress") >= 1 and events[-1]["event"] == "run_done", events)
try: kiln.run(flow, sed=3); ok("faults", False)
except kiln.Faults as f: ok("faults", "did you mean 'seed'" in str(f) and len(f.faults) == 1, f)
ok("check_is_a_list", kiln.check(flow) == [] and "did you mean" in kiln.check(flow, set={"sampler.step": 4})[0])
try: kiln.run("nowhere.yaml"); ok("no_file", False)
except kiln.Error as e: ok("no_file", "nowhere.yaml" in str(e), e)
try: kiln.run(flow, options={"threds": 1}); ok("no_option", False)
except TypeError as e: ok("no_option", "did you mean 'threads'" in str(e), e)
o = kiln.run(flow, set=steps, options={"output": "one/named.png", "memory": "4G", "cache_size": "1.5GiB", "save_state": 0, "quiet": True})
ok("options_as_the_command_has_them", o.files == ["one/named.png"], o.files)
ok("a_sweep_by_one_text", len(kiln.run(flow, set=steps, options={"over": "seed=1,2", "out": "text"}).rows) == 2)
def refused(name, words, **more):
    try: kiln.run(flow, **more); ok(name, False)
    except (TypeError, ValueError) as e: ok(name, words in str(e), e)
refused("no_size", "lots", options={"memory": "lots"})
refused("two_names", "which?", options={"output": "a.png", "out": "b"})
refused("no_value", "seed: None is no value", seed=None)
refused("a_nul", "NUL", prompt="a\0b")
for e in kiln.events(flow, set={"sampler.steps": 5000}, options={"out": "left"}):
    if e["event"] == "progress": break
ok("leaving_the_loop_stops_it", not os.path.exists("left/kiln_00001_.png"))
try:
    for e in kiln.events(flow, set={"sampler.steps": 5000}, options={"out": "left"}):
        if e["event"] == "progress": kiln.cancel()
    ok("cancelled", False)
except kiln.Cancelled as e: ok("cancelled", e.result.summary["nodes"] == 7 and not os.path.exists("left/kiln_00001_.png"))
s = kiln.run(flow, set=steps, options={"out": "sweep", "over": [("seed", "1..2"), ("cfg", "2,5")]})
ok("a_sweep", len(s.rows) == 4 and s.summary["rows_done"] == 4 and len(s.pictures) == 4, s.rows)
first = kiln.events(flow, set=steps, options={"out": "two"}); next(first)
try: kiln.run(flow); ok("one_at_a_time", False)
except kiln.Error as e: ok("one_at_a_time", "one workflow at a time" in str(e), e)
first.close()
shown = [e["rgb"] for e in kiln.events(flow, set=steps, options={"out": "py", "preview_every": 2}) if e["event"] == "preview"]
ok("previews", shown and all(len(set(bytes(p))) > 10 and getattr(p, "shape", (0, 0, 3))[2] == 3 for p in shown), len(shown))
P
python3 does.py >does.txt 2>&1; cat does.txt; grep -q '^ok previews' does.txt || { echo "FAIL python_ran_to_the_end"; status=1; }
! grep -q '^FAIL' does.txt || status=1

# ---- Ctrl-C
cat >long.py <<'P'
import kiln, time
try: kiln.run("txt2img.yaml", set={"sampler.steps": 9000}, options={"out": "never"}, on_event=lambda e: e["event"] == "progress" and open("begun", "w").close())
except KeyboardInterrupt: print("interrupted")
P
(trap - INT; exec python3 -c "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); exec(open('long.py').read())") >long.txt 2>&1 &
pid=$!
for _ in $(seq 200); do [ -e begun ] && break; sleep 0.1; done
kill -INT $pid; timeout 30 tail --pid=$pid -f /dev/null; wait $pid
same ctrl_c_is_a_KeyboardInterrupt "$(cat long.txt)" interrupted
check nothing_was_written [ ! -e never/kiln_00001_.png ]

# ---- its PNG reader, against libpng's filters: every one of them
cat >filters.py <<'P'
import struct, sys, zlib
try: import numpy
except ImportError: print("skip png_filters: no numpy"); sys.exit()
from kiln._picture import read_png
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
g = numpy.random.default_rng(1)
for depth, channels, colour in ((8, 3, 2), (8, 4, 6), (8, 1, 0), (16, 3, 2)):
    w, h, step = 7, 10, channels * depth // 8
    want = g.integers(0, 256, (h, w * step), dtype=numpy.uint8)
    lines, zero = b"", numpy.zeros(w * step, numpy.int64)
    for y in range(h):
        x, up = want[y].astype(int), want[y - 1].astype(int) if y else zero
        a, c = (numpy.concatenate([zero[:step], v[:-step]]) for v in (x, up))
        p = a + up - c
        d = numpy.stack([abs(p - a), abs(p - up), abs(p - c)])
        guess = [zero, a, up, (a + up) // 2, numpy.choose(d.argmin(0), [a, up, c])][y % 5]
        lines += bytes([y % 5]) + ((x - guess) % 256).astype(numpy.uint8).tobytes()
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    got = read_png(png)
    good = (got == (want if depth == 8 else want.view(">u2")).reshape(h, w, channels)).all()
    print("ok" if good else "FAIL", f"png_filters_{depth}_{channels}")
P
python3 filters.py | tee filters.txt; ! grep -q '^FAIL' filters.txt && grep -q '^ok\|^skip' filters.txt || status=1

# ---- the notebook's cells, one after the other
cat >cells.py <<'P'
import json, sys
names = {}
for i, cell in enumerate(json.load(open(sys.argv[1]))["cells"]):
    if cell["cell_type"] == "code": exec(compile("".join(cell["source"]), f"cell {i}", "exec"), names)
assert len(names["sweep"].rows) == 6 and names["steps"][-1][0] == names["steps"][-1][1]
P
mkdir notebook && cp -R "$KILN_ROOT/workflows" notebook/ && (cd notebook && python3 ../cells.py "$notebook") >cells.txt 2>&1; verdict the_notebook_runs $?
grep -v '^/' cells.txt | tail -n 3 | sed 's/^/  /'

# ---- installed
. "$tests/cli/installed.sh"
install_kiln "$work/prefix" && mkdir away && cp txt2img.yaml away/
(cd away && env -u KILN_LIBRARY PYTHONPATH="$work/prefix/lib/python3/dist-packages" python3 -c "
import kiln
assert kiln.run('txt2img.yaml', set={'sampler.steps': 1}).files == ['out/kiln_00001_.png'], 'files'
assert 'prefix' in kiln._lib._name, kiln._lib._name") >installed.txt 2>&1; verdict it_is_installed_beside_the_library $?
tail -n 2 installed.txt | sed 's/^/  /'
exit $status
