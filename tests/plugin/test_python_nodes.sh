# test_python_nodes.sh - nodes in Python (plugins/examples/python, as installed): they load, check-plugin finds nothing, they compute; errors are
# messages with file and line; an edited file computes again, with --watch by itself; threads, forks and cancelling do no harm.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 8 said.txt; echo "FAIL $1"; status=1; fi
}
unset KILN_PLUGIN_PATH KILN_MODELS KILN_INPUT KILN_MEMORY KILN_CACHE MAKEFLAGS MFLAGS MAKELEVEL
pkg-config --exists python3-embed 2>/dev/null || { echo "skip python_nodes: there is no python3-dev"; exit 0; }
case $KILN_BUILD in *-address | *-thread) echo "skip python_nodes: CPython's own memory is not for a sanitizer"; exit 0 ;; esac
. "$KILN_ROOT/tests/cli/installed.sh"
install_kiln "$work/usr" || { echo "FAIL install"; exit 1; }
export PKG_CONFIG_PATH="$work/usr/lib/pkgconfig" XDG_CACHE_HOME="$work/cache" XDG_DATA_HOME="$work/data"
cp -r "$work/usr/share/kiln/examples/python" "$work/nodes" && cd "$work/nodes" || exit 2
kiln="$work/usr/bin/kiln" folder=python_nodes.data

make CFLAGS='-O1 -g -Wall -Wextra -Wshadow -Werror' >said.txt 2>&1; verdict builds_without_a_warning $?
"$kiln" check-plugin python_nodes.so >said.txt 2>&1; verdict check_plugin $?
grep -q 'node PyBrightness' said.txt && grep -q 'node PySentence' said.txt && grep -q 'contract yes, behaviour yes, quality yes' said.txt; verdict both_were_checked $?
run() { rm -rf out && "$kiln" run "$@" --plugins . --out out >paths.txt 2>said.txt; }
pixels() { tail -c "+$(grep -abo IDAT "$1" | head -n 1 | cut -d: -f1)" "$1" | cksum; }
run python_nodes.yaml --no-cache && [ "$(cat out/words_00001_.txt)" = "A red circle a red circle." ]; verdict a_text $?
# 64 of 255 and a quarter are 127.75 of 255, of which a file has the whole part
printf 'nodes:\n  a: {class_type: EmptyImage, inputs: {width: 16, height: 8, color: 8355711}}\n  s: {class_type: SaveImage, inputs: {images: [a, 0], filename_prefix: wanted}}\n' >wanted.yaml
cp out/light_00001_.png light.png; run wanted.yaml --no-cache; [ "$(pixels light.png)" = "$(pixels out/wanted_00001_.png)" ]; verdict a_picture $?
[ ! -e $folder/__pycache__ ]; verdict nothing_is_written_beside_the_files $?

# ---- values of every kind, both ways; what cannot be is a sentence
cat >$folder/kinds.py <<'P'
import subprocess
import sys
from kiln_node import Bool, Choice, Float, Int, Text, empty, node

@node(inputs={"image": "IMAGE"}, outputs={"LATENT": "LATENT"})
def PyLatent(image):
    n, h, w, c = image.shape
    out = empty(n, h, w, 4)
    return {"samples": out, "batch_index": [7]}

@node(inputs={"latent": "LATENT"}, outputs={"STRING": "STRING", "n": "INT", "x": "FLOAT", "b": "BOOLEAN", "list": "PY_LIST"})
def PyTell(latent):
    s = latent["samples"]
    return f"{s.format} {s.shape} {s.readonly} {latent.get('batch_index')}", 3, 0.5, True, [1, 2.5, "x", [None is None]]

@node(inputs={"list": "PY_LIST", "n": "INT", "x": "FLOAT", "b": "BOOLEAN"}, outputs={"STRING": "STRING"}, yes=Bool(True), whole=Int(3), part=Float(0.5), word=Text("ä"), way=Choice(["left", "right"], "right"))
def PyAll(list, n, x, b, yes, whole, part, word, way):
    return repr((list, n, x, b, yes, whole, part, word, way))

@node(inputs={"image": "IMAGE"}, outputs={"STRING": "STRING"}, what=Text(""))
def PyWrong(image, what):
    def deeper():
        return 1 / 0
    if what == "zero": return deeper()
    if what == "write": image[0, 0, 0, 0] = 1.0
    if what == "exit": sys.exit(0)
    if what == "none": return None
    if what == "object": return object()
    if what == "long": return 2**70
    if what == "print": print("printed by Python")
    if what == "fork": return subprocess.run(["echo", "forked"], stdout=subprocess.PIPE, preexec_fn=lambda: None).stdout.decode().strip()
    if what == "memory": raise MemoryError("so large")
    return "well"
P
cat >kinds.yaml <<'Y'
params: {what: ""}
nodes:
  grey: {class_type: EmptyImage, inputs: {width: 4, height: 2, color: 4210752}}
  latent: {class_type: PyLatent, inputs: {image: [grey, 0]}}
  tell: {class_type: PyTell, inputs: {latent: [latent, 0]}}
  all: {class_type: PyAll, inputs: {list: [tell, list], n: [tell, n], x: [tell, x], b: [tell, b]}}
  wrong: {class_type: PyWrong, inputs: {image: [grey, 0], what: "${what}"}}
  one: {class_type: SaveText, inputs: {text: [tell, STRING], filename_prefix: tell}}
  two: {class_type: SaveText, inputs: {text: [all, 0], filename_prefix: all}}
  three: {class_type: SaveText, inputs: {text: [wrong, 0], filename_prefix: wrong}}
Y
run kinds.yaml --no-cache && [ "$(cat out/tell_00001_.txt)" = "f (1, 2, 4, 4) True [7]" ]; verdict inputs_have_shape_and_type $?
[ "$(cat out/all_00001_.txt)" = "([1, 2.5, 'x', [True]], 3, 0.5, True, True, 3, 0.5, 'ä', 'right')" ]; verdict values_and_parameters $?
wrong() { # NAME WHAT WORDS
    run kinds.yaml --no-cache --set "what=$2"; [ $? -eq 3 ] && grep -qF "kiln: error: node 'wrong' (PyWrong): $3" said.txt && [ -s out/all_00001_.txt ]; verdict "$1" $?
}
wrong an_exception_has_its_places zero "ZeroDivisionError: division by zero (kinds.py:23 in deeper, called from kinds.py:24 in PyWrong)"
wrong an_input_is_read_only write "TypeError: cannot modify read-only memory (kinds.py:25 in PyWrong)"
wrong exit_is_an_exception exit "SystemExit: 0 (kinds.py:26 in PyWrong)"
wrong none_is_no_output none "TypeError: an output is NoneType; give a tensor, a number, a text, a list or a dict"
wrong an_object_is_no_output object "TypeError: an output is object; give"
wrong a_number_that_is_too_long long "OverflowError"
wrong no_memory memory "MemoryError: so large (kinds.py:32 in PyWrong)"
run kinds.yaml --no-cache --set what=print && grep -q '^printed by Python$' said.txt && ! grep -q 'printed' paths.txt && ! grep -q warning said.txt; verdict what_it_prints_is_on_standard_error $?
run kinds.yaml --no-cache --set what=fork && [ "$(cat out/wrong_00001_.txt)" = forked ]; verdict it_may_start_programs $?
"$kiln" check-plugin python_nodes.so >said.txt 2>&1; verdict check_plugin_of_all_of_them $?

# ---- a file that cannot be loaded is said, and the others are there
echo 'def (' >$folder/bad.py; run python_nodes.yaml --no-cache && grep -q "bad.py is left out: SyntaxError: invalid syntax (bad.py:1)" said.txt; verdict a_syntax_error $?
printf 'import sys\nsys.exit(0)\n' >$folder/bad.py; run python_nodes.yaml --no-cache && grep -q "bad.py is left out: SystemExit: 0 (bad.py:2 in <module>)" said.txt; verdict a_file_that_exits $?
printf 'from kiln_node import node\n@node(outputs={"INT": "INT"}, size=3)\ndef PyBad(size): return size\n' >$folder/bad.py
run python_nodes.yaml --no-cache && grep -q "bad.py is left out: TypeError: PyBad: parameter 'size' is 3; make it Float, Int, Bool, Text or Choice" said.txt; verdict a_parameter_that_is_none $?
rm $folder/bad.py

# ---- results are kept, and an edited file computes again
run python_nodes.yaml && run python_nodes.yaml && grep -q 'PyBrightness) from the cache' said.txt; verdict results_are_kept $?
sed -i 's/y = x + amount/y = x - amount/' $folder/brightness.py; run python_nodes.yaml && grep -q 'PyBrightness) [0-9]' said.txt && [ "$(pixels out/light_00001_.png)" != "$(pixels light.png)" ]; verdict an_edited_file_computes_again $?

# ---- threads: one at a time in Python, whoever calls; and a call is ended
cat >$folder/busy.py <<'P'
import time
from kiln_node import Int, node
inside = 0

@node(inputs={"image": "IMAGE"}, outputs={"INT": "INT"}, reentrant=True, which=Int(0))
def PyBusy(image, which, progress):
    global inside
    inside += 1
    for i in range(20):
        time.sleep(0.005)  # lets go of the GIL
        progress(i, 20)
    most, inside = inside, inside - 1
    return most

@node(outputs={"STRING": "STRING"})
def PyForever(progress):
    while True:
        try:
            progress()
        except Exception:
            pass
P
{ echo 'nodes:'; echo '  grey: {class_type: EmptyImage, inputs: {width: 4, height: 2}}'
  for i in 1 2 3 4 5 6 7 8; do echo "  n$i: {class_type: PyBusy, inputs: {image: [grey, 0], which: $i}}"; echo "  t$i: {class_type: PyAll, inputs: {list: [l, list], n: [n$i, 0], x: [l, x], b: [l, b]}}"; echo "  s$i: {class_type: SaveText, inputs: {text: [t$i, 0], filename_prefix: t$i}}"; done
  echo '  m: {class_type: PyLatent, inputs: {image: [grey, 0]}}'; echo '  l: {class_type: PyTell, inputs: {latent: [m, 0]}}'; } >busy.yaml
run busy.yaml --no-cache --threads 4 && [ "$(find out -name 't*.txt' | wc -l)" -eq 8 ]; verdict eight_at_once $?
printf 'nodes:\n  f: {class_type: PyForever}\n  s: {class_type: SaveText, inputs: {text: [f, 0], filename_prefix: f}}\n' >forever.yaml
rm -rf out; begun=$SECONDS; timeout -s INT 2 "$kiln" run forever.yaml --plugins . --no-cache --out out >paths.txt 2>said.txt; [ $? -ne 0 ] && [ $((SECONDS - begun)) -lt 20 ] && ! grep -q 'KeyboardInterrupt' said.txt; verdict a_call_is_ended $?

# ---- --watch sees the files
rm -rf out; "$kiln" run python_nodes.yaml --plugins . --no-cache --watch --out out >paths.txt 2>said.txt & pid=$!
waits() { for _ in $(seq 400); do [ "$(grep -c '^kiln: watching' said.txt)" -ge "$1" ] && return 0; sleep 0.05; done; return 1; }
waits 1; sed -i 's/capitalize()/upper()/' $folder/sentences.py; waits 2 && grep -q "$folder.* has changed; running again" said.txt && [ "$(cat out/words_00002_.txt)" = "A RED CIRCLE A RED CIRCLE." ]; verdict watch_runs_an_edited_file $?
cp $folder/sentences.py further.py && sed -i 's/PySentence/PyFurther/' further.py && mv further.py $folder/; waits 3; verdict watch_sees_a_new_file $?
kill -INT $pid; wait $pid

rm $folder/busy.py

# ---- numpy, where it is
if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
    cat >$folder/arrays.py <<'P'
import numpy as np
from kiln_node import Float, node

@node(inputs={"image": "IMAGE"}, outputs={"IMAGE": "IMAGE", "n": "INT"}, amount=Float(0.25))
def PyArray(image, amount):
    x = np.asarray(image)
    assert not x.flags.writeable and x.dtype == np.float32
    return (x.astype(np.float64) + amount)[:, ::-1], int(x.size)  # f64, and a view that is not dense
P
    sed 's/PyBrightness/PyArray/' python_nodes.yaml >arrays.yaml; run arrays.yaml --no-cache && [ "$(pixels out/light_00001_.png)" = "$(pixels light.png)" ]; verdict arrays_of_numpy $?
    "$kiln" check-plugin python_nodes.so >said.txt 2>&1; verdict check_plugin_with_numpy $?
else
    echo "skip arrays_of_numpy: there is no numpy"
fi
exit $status
