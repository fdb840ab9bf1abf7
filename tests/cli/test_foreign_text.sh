# test_foreign_text.sh - what comes from a file, a plugin or the command line is shown and never obeyed by the terminal: hostile names, with ESC,
# BEL, DEL, C1 controls, marks that turn text round and bytes that are no UTF-8, through every command and every place where a name can
# stand. And no part of the engine prints past base/print.c.
. "$KILN_ROOT/tests/cli/head.sh"
command -v python3 >/dev/null || { echo "skip foreign_text: no python3 here"; exit 0; }
unset KILN_CACHE
umask 022
export XDG_CACHE_HOME="$work/xdg"

H=$'\e]0;owned\a\e[31m\xc2\x9b1m\xe2\x80\xae\x7f' # a title, a bell, colours, text turned round
B=$'\e[2J\x9b\xff'                                # and no UTF-8
N=$'\nkiln: error: forged'
mkdir "$work/o" "$work/plugins" "$work/in$H$B$N"
# shown NAME COMMAND...: what it prints, for the check at the end
shown() { local name=$1; shift; "$@" >"$work/o/$name" 2>&1; }

# ---- files with hostile content
cat >"$work/craft.py" <<'P'
import json, os, struct, sys
h = "\x1b]0;owned\x07\x1b[31m\x9b1m\u202e\x7f"
work = sys.argv[1].encode()
def tensors(path, head, data=b""):
    text = json.dumps(head, ensure_ascii=len(path) % 2 == 0).encode()
    open(os.path.join(work, path), "wb").write(struct.pack("<Q", len(text)) + text + data)
one = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
tensors(b"names.safetensors", {"a" + h + "\nF32 forged": one, "__metadata__": {h: h}}, b"\0\0\xc0\x7f")
tensors(b"dtype.safetensors", {"a": dict(one, dtype="F32" + h)}, bytes(4))
tensors(b"twice.safetensors", {"a" + h: one, "b" + h: one}, bytes(4))
tensors(b"short.safetensors", {"a" + h: dict(one, shape=[9])}, bytes(4))
tensors(b"key.safetensors", {"a" + h: dict(one, **{"odd" + h: 1})}, bytes(4))
def node(type, **inputs): return {"class_type": type, "inputs": inputs}
def prompt(path, nodes): json.dump(nodes, open(os.path.join(work, path), "w"))
large = "large" + h + "\nforged"
prompt(b"wrong.json", {"blank" + h: node("EmptyImage" + h, **{"width" + h: 8}), "x": node("SaveImage", images=["blank" + h + "?", 0], filename_prefix="p" + h)})
prompt(b"names.json", {"blank" + h: node("EmptyImage", width=64, height=48, batch_size=1, color=1),
                       large: node("ImageScaleBy", image=["blank" + h, 0], upscale_method="lanczos", scale_by=1.5),
                       "save" + h: node("SaveImage", images=[large, 0], filename_prefix="p"),
                       "fail" + h: node("LoadImage", image="names.safetensors"), "z" + h: node("SaveImage", images=["fail" + h, 0], filename_prefix="q")})
open(os.path.join(work, b"rows.csv"), "w").write("save" + h + ".filename_prefix\np" + h + "\n")
P
python3 "$work/craft.py" "$work" || exit 2
cat >"$work/good.yaml" <<'Y'
kiln: 1
params: {say: hello}
nodes:
  "blank\e]0;owned\a\x7f\x9b\u202e": {class_type: EmptyImage, inputs: {width: 64, height: 48, batch_size: 1, color: 7}}
  "large\e[31m\nforged": {class_type: ImageScaleBy, inputs: {image: ["blank\e]0;owned\a\x7f\x9b\u202e", 0], upscale_method: lanczos, scale_by: 1.5}}
  "save\e[31m": {class_type: SaveImage, inputs: {images: ["large\e[31m\nforged", 0], filename_prefix: "p${say}"}}
Y
# A file's name holds no control characters (check says so), but what a node is told may: there the sweeps put theirs.
{ sed 's/p${say}/p/' "$work/good.yaml"; echo '  "talk\e[5m\a": {class_type: TestTalk, inputs: {text: "${say}\e]0;owned\a\x9b\u202e"}}'; } >"$work/talk.yaml"
cat >"$work/wrong.yaml" <<'Y'
kiln: 1
nodes:
  "a\e[31m": {class_type: "No\aSuch", inputs: {"x\x9b": 1}}
  "b\x7f": {class_type: SaveImage, inputs: {images: ["gone\u202e", 0], filename_prefix: p, "odd\e[1m": "v\a"}}
Y
cp "$work/names.safetensors" "$work/in$H$B$N/x$H$B$N.safetensors"
cp "$work/good.yaml" "$work/in$H$B$N/w$H$B$N.yaml"

# ---- a plugin that says hostile things
cat >"$work/talk.c" <<'C'
#include "kiln/plugin.h"
#include <stdio.h>
#include <unistd.h>
#define H "\x1b]0;owned\a\x1b[31m\xc2\x9b" "1m\xe2\x80\xae\x7f"
typedef struct { const char *text; } params;
static const kiln_param param[] = {
    {.name = "text", .type = KILN_P_STRING, .offset = offsetof(params, text), .def_str = "\xc2\x9b" "1m\xe2\x80\xae", .doc = "Said\xc2\x9b" "1m\xe2\x80\xae."},
};
static kiln_status run(const kiln_call *c)
{
    c->host->log(KILN_LOG_WARN, "log " H "\nforged");
    c->host->log(KILN_LOG_INFO, "info " H);
    for (unsigned i = 0; i <= 8; i++) {
        kiln_status status = c->host->progress(c->ctx, i, 8, "what " H "\nforged");
        if (status) return status;
        usleep(30000);
    }
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "said %s and %s\nforged", ((const params *)c->params)->text, H);
}
static const kiln_node talk = {
    .size = sizeof talk, .flags = KILN_NODE_OUTPUT, .devices = KILN_CPU, .revision = 1, .type = "TestTalk", .title = "Talk\xc2\x9b" "1m\xe2\x80\xae",
    .category = "test\xc2\x9b" "1m", .doc = "Talks\xc2\x9b" "1m\xe2\x80\xae.", KILN_ARRAY(param, param), .params_size = sizeof(params), .run = run,
};
KILN_PLUGIN("org.example.talk", "1.0.0", "MIT", &talk);
C
${CC:-gcc} -std=c11 -D_GNU_SOURCE -Wall -O1 -fPIC -shared -Iinclude "$work/talk.c" -o "$work/plugins/talk.so" ||
    { bad the_plugin_is_built "see above"; exit 1; }
ok the_plugin_is_built
mkdir "$work/odd$H$B" && echo 'no library' >"$work/odd$H$B/bad$H$B$N.so"

# ---- inspect
for f in names dtype twice short key; do
    shown "inspect_$f" "$kiln" inspect "$work/$f.safetensors"; shown "inspect_json_of_$f" "$kiln" inspect "$work/$f.safetensors" --json
    shown "inspect_tensors_of_$f" "$kiln" inspect "$work/$f.safetensors" --tensors
done
shown inspect_finite "$kiln" inspect "$work/names.safetensors" --finite
shown inspect_a_hostile_path "$kiln" inspect "$work/in$H$B$N/x$H$B$N.safetensors"
shown inspect_what_is_not_there "$kiln" inspect "$work/none$H$B$N"
shown inspect_a_folder "$kiln" inspect "$work/in$H$B$N"
# ---- check, graph, explain
for f in wrong.yaml wrong.json; do shown "check_$f" "$kiln" check "$work/$f"; shown "run_$f" "$kiln" run "$work/$f" --no-cache --out "$work/out"; done
shown check_a_hostile_path "$kiln" check "$work/in$H$B$N/w$H$B$N.yaml"
shown check_what_is_not_there "$kiln" check "$work/none$H$B$N.yaml"
shown graph_to_stdout "$kiln" graph "$work/good.yaml" -o -
shown graph_somewhere "$kiln" graph "$work/good.yaml" -o "$work/x$H.odd"
shown explain "$kiln" run "$work/good.yaml" --explain --no-cache
shown dry_run "$kiln" run "$work/good.yaml" --dry-run --cache "$work/c"
# ---- run
shown run_names_json "$kiln" run "$work/names.json" --cache "$work/c" --out "$work/out" -v
shown run_verbose "$kiln" run "$work/good.yaml" --cache "$work/c" --out "$work/out" -v --events "$work/o/events" --trace "$work/o/trace"
shown run_events_to_stdout "$kiln" run "$work/good.yaml" --cache "$work/c" --out "$work/out" --events -
shown run_again_from_the_cache "$kiln" run "$work/good.yaml" --cache "$work/c" --out "$work/out" -v
shown run_into_a_hostile_folder "$kiln" run "$work/good.yaml" --no-cache --out "$work/in$H$B$N/out"
shown run_talk "$kiln" run "$work/talk.yaml" --plugins "$work/plugins" --no-cache --out "$work/out" -v --events "$work/o/talk_events"
shown run_cache_in_a_hostile_place "$kiln" run "$work/good.yaml" --cache "$work/names.safetensors/c$H$B$N" --out "$work/out"
shown run_prefix "$kiln" run "$work/good.yaml" --no-cache --set say="$H" --out "$work/out"
shown run_set_unknown "$kiln" run "$work/good.yaml" --no-cache --set "odd$H$B=1" --out "$work/out"
shown run_sweep "$kiln" run "$work/talk.yaml" --plugins "$work/plugins" --no-cache --over "say=a,b$H" --out "$work/sweep" -v --events "$work/o/sweep_events" --manifest "$work/o/manifest"
shown run_sweep_dry "$kiln" run "$work/good.yaml" --no-cache --over "say=a,b$H" --out "$work/sweep" --dry-run
shown run_sweep_quiet "$kiln" run "$work/good.yaml" --no-cache --over "say=a,b$H" --out "$work/sweep2" -q
shown run_sweep_of_a_file "$kiln" run "$work/good.yaml" --no-cache --over-file "$work/rows.csv" --out "$work/sweep3"
shown run_sheet "$kiln" run "$work/good.yaml" --no-cache --over "say=a,b" --sheet "$work/s$H$B.png" --out "$work/sweep5"
# ---- plugins
shown plugins "$kiln" plugins --plugins "$work/plugins:$work/odd$H$B"
shown plugins_json "$kiln" plugins --json --plugins "$work/plugins:$work/odd$H$B"
shown nodes "$kiln" nodes --plugins "$work/plugins:$work/odd$H$B"
shown nodes_one "$kiln" nodes TestTalk --plugins "$work/plugins"
shown nodes_json "$kiln" nodes TestTalk --json --plugins "$work/plugins"
shown nodes_json_all "$kiln" nodes --json --plugins "$work/plugins"
shown nodes_unknown "$kiln" nodes "No$H$B$N"
shown samplers_unknown "$kiln" samplers "No$H$B$N"
shown check_plugin "$kiln" check-plugin "$work/odd$H$B/bad$H$B$N.so"
shown check_plugin_that_talks "$kiln" check-plugin "$work/plugins/talk.so"
shown check_plugin_not_there "$kiln" check-plugin "$work/none$H$B$N.so"
# ---- cache
python3 - "$work/c/index.sqlite" <<'P'
import sqlite3, sys
h = "\x1b]0;owned\x07\x1b[31m\x9b1m\u202e\x7f\nforged"
c = sqlite3.connect(sys.argv[1]); c.execute("UPDATE entry SET type='T'||?, what='W'||?", (h, h)); c.commit()

P
shown cache_ls "$kiln" cache ls --cache "$work/c"
shown cache_ls_json "$kiln" cache ls --json --cache "$work/c"
key=$("$kiln" cache ls --cache "$work/c" | sed -nE 's/^([0-9a-f]{16}) .*/\1/p' | head -n 1)
shown cache_show "$kiln" cache show "$key" --cache "$work/c"
shown cache_show_json "$kiln" cache show "$key" --json --cache "$work/c"
find "$work/c/values" -type f -exec dd if=/dev/zero of={} bs=1 seek=100 count=8 conv=notrunc status=none \;
python3 - "$work/c/index.sqlite" <<'P'
import sqlite3, sys
c = sqlite3.connect(sys.argv[1]); c.execute("UPDATE content SET body=zeroblob(length(body)) WHERE body IS NOT NULL"); c.commit()
P
shown cache_verify "$kiln" cache verify --cache "$work/c"
mkdir "$work/k$H$B" && shown cache_stat_of_a_hostile_folder "$kiln" cache stat --cache "$work/k$H$B"
shown cache_stat_json "$kiln" cache stat --json --cache "$work/k$H$B"
shown cache_nowhere "$kiln" cache ls --cache "$work/none$H$B$N"
shown cache_what "$kiln" cache "odd$H$B"
# ---- the command line
shown a_command "$kiln" "odd$H$B$N"
shown an_option "$kiln" run --"odd$H$B$N"
shown a_value "$kiln" run w.yaml --threads "odd$H$B$N"
shown a_device "$kiln" run "$work/good.yaml" --device "odd$H$B" --no-cache --out "$work/out"

# ---- on a terminal: nothing but our own line that is drawn again
python3 - "$kiln" "$work" <<'P'
import os, pty, sys
os.environ["TERM"] = "xterm"
kiln, work = sys.argv[1:]
def run(*args):
    out = b""
    pid, fd = pty.fork()
    if pid == 0: os.execv(kiln, [kiln, "run", *args, "--no-cache", "--out", work + "/out"])
    while True:
        try: piece = os.read(fd, 65536)
        except OSError: break
        if not piece: break
        out += piece
    os.waitpid(pid, 0)
    return out
talk = [work + "/talk.yaml", "--plugins", work + "/plugins"]
for name, args in (("terminal", talk), ("terminal_of_a_sweep", talk + ["--over", "say=a,b\x1b[31m\u202e"])):
    out = run(*args)
    if out.count(b"\r\x1b[K") < 3: print("FAIL %s_draws_a_bar" % name)
    else: print("ok %s_draws_a_bar" % name)
    open("%s/o/%s" % (work, name), "wb").write(out.replace(b"\r\x1b[K", b"").replace(b"\r\n", b"\n"))
P

# ---- the check
python3 - "$work/o" <<'P' || status=1
import json, os, re, sys
folder, wrong = sys.argv[1], 0
order = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
for name in sorted(os.listdir(folder)):
    data = open(os.path.join(folder, name), "rb").read()
    why = None
    try: text = data.decode()
    except UnicodeDecodeError as e: text, why = "", "no UTF-8: %s" % e
    found = order.search(text)
    if found: why = "a control character: %r" % text[max(0, found.start() - 60):found.start() + 20]
    elif not why and not re.search(r"\\x1b|\\u001b|\\u009b|\\x9b", text): why = "the hostile name is not in it: %r" % text[:300]
    elif re.search(r"(?m)^(kiln: error: )?(forged|F32 forged)", text): why = "a line was forged"
    elif name.endswith("json"):
        try: [json.loads(l) for l in text.splitlines()] if name in ("cache_ls_json",) else json.loads(text)
        except ValueError as e:
            if not re.match(r"(check|run)_", name): why = "no JSON: %s" % e
    elif "events" in name or name == "manifest":
        for l in text.splitlines():
            try: json.loads(l)
            except ValueError as e:
                if l.startswith("{"): why = "no JSON: %s: %r" % (e, l)
    if why: print("  %s: %s\nFAIL %s" % (name, why, name)); wrong = 1
    else: print("ok " + name)
sys.exit(wrong)
P

# ---- whoever prints does it through base/print.c
if command -v nm >/dev/null; then
    past=$(for o in $(find "$KILN_BUILD/engine" -name '*.o' ! -path '*/base/print.o' ! -path '*/backend/cuda/*'); do
        nm -u "$o" | grep -wE '(__)?(v?f?printf|vd?printf|dprintf)(_chk)?|puts|fputs|putchar|putc|fputc|fwrite|perror' | sed "s|^|$o:|"
    done)
    [ -z "$past" ] && ok nobody_prints_past_it || bad nobody_prints_past_it "$past"
else
    echo "skip nobody_prints_past_it: no nm here"
fi
exit $status
