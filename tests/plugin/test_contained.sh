# test_contained.sh - a plugin that ends its process, hangs or is killed costs its own node: the sentence names node, plugin, signal
# and place, everything else of the run is finished and kept, nothing is written, reported or drawn twice, and the status is not 0.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
ulimit -c 0
export XDG_CACHE_HOME="$work/xdg" TMPDIR="$work/tmp"
unset KILN_PLUGIN_PATH KILN_CACHE KILN_TEST_ENDING
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2
mkdir tmp plugins
gcc -std=c11 -D_GNU_SOURCE -O0 -g -w -fPIC -shared -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/ending.c" -o plugins/ending.so -lpthread || exit 2
case $KILN_BUILD in *-address | *-thread) ours=0 ;; *) ours=1 ;; esac # the sanitizers tell of crashes themselves
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 30 run.txt; echo "FAIL $1"; status=1; fi
}
# A chain that ends well, and a node that does not: workflow TYPE WAY
workflow() {
    cat <<Y
kiln: 1
nodes:
  last words: {class_type: $1, inputs: {way: $2}}
  blank: {class_type: EmptyImage, inputs: {width: 160, height: 120, batch_size: 1, color: 3368601}}
  large: {class_type: ImageScaleBy, inputs: {image: [blank, 0], upscale_method: lanczos, scale_by: 1.5}}
  save: {class_type: SaveImage, inputs: {images: [large, 0], filename_prefix: p}}
Y
}
run() { "$kiln" run "$@" --plugins plugins --out out >paths.txt 2>run.txt; code=$?; }
# One stream of events: it begins and ends once, each node begins and ends at most once.
one_stream() {
    python3 - "$1" <<'P' >>run.txt 2>&1
import collections, json, sys
events = [json.loads(l) for l in open(sys.argv[1])]
kinds = [e["event"] for e in events]
assert kinds[0] == "run_start" and kinds[-1] == "run_done" and kinds.count("run_start") == kinds.count("run_done") == 1, kinds
seen = collections.Counter((e["event"], e.get("row"), e["node"]) for e in events if e["event"] in ("node_start", "node_done", "node_failed", "node_skipped"))
assert all(n == 1 for n in seen.values()), seen
ends = collections.Counter((e.get("row"), e["node"]) for e in events if e["event"] in ("node_done", "node_failed", "node_skipped"))
assert all(n == 1 for n in ends.values()), ends
files = [e["path"] for e in events if e["event"] == "file"]
assert len(set(files)) == len(files), files
assert [e["time"] for e in events] == sorted(e["time"] for e in events)
P
}
is_one_picture() { [ "$(find out -name '*.png' | wc -l)" -eq 1 ] && [ "$(grep -c 'png$' paths.txt)" -eq 1 ] && [ ! -e out/p_00002_.png ]; }
# contained NAME TYPE WAY PATTERN [OPTIONS...]
contained() {
    local name=$1 type=$2 way=$3 pattern=$4; shift 4
    rm -rf out cache events
    workflow "$type" "$way" >w.yaml
    run w.yaml --events events --cache cache "$@"
    [ $code -eq 3 ] && [ "$(grep -c "$pattern" run.txt)" -eq 1 ] && is_one_picture && one_stream events && grep -q '1 of 4 nodes failed, 0 skipped, 3 finished' run.txt
    verdict "$name" $?
}
blamed="kiln: error: node 'last words' (Ending): plugin org.example.ending:"
if [ $ours -eq 1 ]; then
    contained exit Ending exit "$blamed ended the process with exit(0) in its run(), at ending.so+0x[0-9a-f]*; a plugin must never exit"
    contained quick_exit Ending quick_exit "$blamed ended the process with quick_exit() in its run(), at ending.so+0x[0-9a-f]*; "
    contained segv Ending segv "$blamed crashed with SIGSEGV in its run(), at ending.so+0x"
    contained abort Ending abort "$blamed crashed with SIGABRT in its run(), at ending.so+0x"
    contained stack Ending stack "$blamed crashed with SIGSEGV (stack overflow) in its run(), at ending.so+0x"
    contained thread Ending thread "$blamed crashed with SIGSEGV in its run(), at ending.so+0x"
    contained in_create EndingInCreate segv "node 'last words' (EndingInCreate): plugin org.example.ending: crashed with SIGSEGV in its create()"
    contained late Ending late "plugin org.example.ending: crashed with SIGSEGV"
fi
contained _exit Ending _exit "$blamed ended the process with status 0 in its run(), past every handler (_exit()); a plugin must never exit"
contained kill Ending kill "$blamed was killed in its run() (SIGKILL), as the system does when memory runs out"
contained term Ending term "$blamed was ended by SIGTERM in its run()"
contained _exit_in_create EndingInCreate _exit "node 'last words' (EndingInCreate): plugin org.example.ending: ended the process with status 0 in its create()"
workflow Ending none >w.yaml; run w.yaml; verdict a_node_that_does_nothing_passes $code
contained exec Ending exec "$blamed ended the process with status 0 in its run(), past every handler (_exit())"
contained daemon Ending daemon "$blamed ended the process with status 0 in its run(), past every handler (_exit())"
contained close Ending close "$blamed closed descriptors that it had not opened in its run(); nothing else can run in such a process, so it was ended"
contained pthread_exit Ending pthread_exit "$blamed ended its thread with pthread_exit() in its run(); nothing else can run in such a process, so it was ended"
# well NAME WAY PATTERN STATUS: everything is done, and it is said
well() {
    rm -rf out cache events; workflow Ending "$2" >w.yaml; run w.yaml --events events --cache cache
    [ $code -eq "$4" ] && [ "$(grep -c "$3" run.txt)" -ge 1 ] && is_one_picture && one_stream events; verdict "$1" $?
}
well fork fork 'kiln: a plugin has forked and both processes came back; the copy ends' 0
# Who may raise a hard limit puts it back; for others the process is unfit.
if [ "$(id -u)" -ne 0 ] || ! (ulimit -H -f 1000 && ulimit -H -f 2000) 2>/dev/null; then
    contained limit Ending limit "$blamed lowered a limit of the process for good in its run(); nothing else can run in such a process"
else
    well limit limit "node 'last words' (Ending) of plugin org.example.ending.* changed the limit on the size of files; it was put back" 0
fi
if [ $ours -eq 1 ]; then
    well at_exit at_exit 'plugin org.example.ending: outside of its nodes: crashed with SIGSEGV, at ending.so+0x' 1
    well stuck stuck 'kiln: error: a plugin keeps the process from ending; it was ended after 5 s' 1
fi

# The place leads to the line.
if [ $ours -eq 1 ] && command -v addr2line >/dev/null; then
    contained segv_again Ending segv "ending.so+0x" >/dev/null
    line=$(addr2line -e plugins/ending.so "$(sed -n 's/.*ending.so+\(0x[0-9a-f]*\).*/\1/p' run.txt | head -1)")
    want=$(grep -n 'case 2: \*nowhere = 1' "$KILN_ROOT/tests/plugin/hostile/ending.c" | cut -d: -f1)
    [[ $line == *ending.c:$want ]]; verdict the_place_leads_to_the_line $?
fi

# ---- nodes that do not come back: named, then ended
contained hang Ending hang "$blamed gave no sign of life for 2 s in its run() and was ended; a node that takes long calls host->progress()" --node-timeout 2
grep -q "kiln: node 'last words' (Ending) of plugin org.example.ending has given no sign of life for 1 s; it is ended after 2 s (--node-timeout)" run.txt; verdict it_is_named_before $?
contained deaf Ending deaf "$blamed gave no sign of life for 1 s" --node-timeout 1
# It takes a second, in which a busy machine may leave it standing for a part of that.
rm -rf out; workflow Ending slow >w.yaml; run w.yaml --node-timeout 0.9
[ $code -eq 0 ] && ! grep -q 'gave no sign of life' run.txt; verdict progress_is_a_sign_of_life $?
run w.yaml --node-timeout soon; [ $code -eq 2 ] && grep -q -- '--node-timeout soon: it is a number of seconds' run.txt; verdict a_timeout_that_is_no_number $?

# ---- before anything runs: a fault of the workflow
before() { # NAME TYPE FUNCTION
    rm -rf out; workflow "$2" _exit >w.yaml; run w.yaml
    [ $code -eq 2 ] && grep -q "w.yaml:.*node 'last words' ($2): plugin org.example.ending: ended the process with status 0 in its $3()" run.txt && grep -q '1 fault; nothing was run' run.txt && [ -z "$(ls out 2>/dev/null)" ]
    verdict "$1" $?
}
before in_check EndingInCheck check
before in_expand EndingInExpand expand
before in_wants EndingInWants wants
# `kiln check` calls them too, and is no more believed than a run.
for json in "" --json; do
    workflow EndingInCheck _exit >w.yaml; "$kiln" check w.yaml --plugins plugins $json >paths.txt 2>run.txt
    [ $? -eq 1 ] && [ ! -s paths.txt ] && grep -q "node 'last words' (EndingInCheck): plugin org.example.ending: ended the process with status 0 in its check()" run.txt; verdict "in_kiln_check$json" $?
    workflow EndingInCheck none >w.yaml; "$kiln" check w.yaml --plugins plugins $json >paths.txt 2>run.txt && [ -s paths.txt ]; verdict "kiln_check_passes$json" $?
done
# `kiln inspect` asks the families of plugins.
for way in 0 7 8 9; do
    mkdir -p "family$way" && gcc -std=c11 -D_GNU_SOURCE -DBAD=$way -O1 -w -fPIC -shared -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/bad_family.c" -o "family$way/family.so" || exit 2
done
inspect() { "$kiln" inspect "$KILN_ROOT/workflows/models/shapes-sd1" --plugins "$@" >paths.txt 2>run.txt; code=$?; }
inspect family0; [ $code -eq 0 ] && grep -q 'family sd-unet' paths.txt; verdict inspect_asks_a_family $?
inspect family7; [ $code -eq 1 ] && grep -q "kiln: error: plugin org.example.bad-family: model family 'bad' ended the process with status 0 in its detect(), past every handler (_exit()); a plugin must never exit" run.txt && [ ! -s paths.txt ]; verdict inspect_exit $?
inspect family9; [ $code -eq 1 ] && grep -q "kiln: error: plugin org.example.bad-family: model family 'bad' ended the process with status 0 in its open(), past every handler" run.txt && [ ! -s paths.txt ]; verdict inspect_exit_in_open $?
[ $ours -eq 0 ] || { inspect family8; [ $code -eq 1 ] && grep -q 'kiln: error: plugin org.example.bad-family: model family .bad. crashed with SIGABRT in its detect(), at family.so+0x' run.txt && [ ! -s paths.txt ]; verdict inspect_abort $?; }
inspect family7 --tensors; [ $code -eq 0 ] && grep -q '662 tensors' paths.txt; verdict inspect_tensors_asks_nobody $?
cat "$KILN_ROOT/workflows/models/shapes-sd1/vae/diffusion_pytorch_model.safetensors" | "$kiln" inspect - --plugins family0 >paths.txt 2>run.txt; grep -q '^autoencoder: sd1-vae' paths.txt; verdict inspect_reads_a_pipe $?

# ---- a plugin that ends the process when it is loaded, but not in the probe: its nodes are known without it
for where in open load; do
    rm -rf out xdg mark; workflow Ending none >w.yaml
    KILN_TEST_ENDING=$where KILN_TEST_MARK=$work/mark run w.yaml
    [ $code -eq 3 ] && is_one_picture && grep -q "node 'last words' (Ending): plugin org.example.ending: is not loaded: it ended the process with status 0 in its $where()" run.txt; verdict "in_$where" $?
done

# ---- after everything ran
rm -rf out; workflow EndingInDestroy _exit >w.yaml; run w.yaml
[ $code -eq 1 ] && is_one_picture && grep -q "node 'last words' (EndingInDestroy): plugin org.example.ending: ended the process with status 0 in its destroy()" run.txt; verdict in_destroy $?

# ---- what hangs on it is skipped; what is equal is not tried again
cat >w.yaml <<'Y'
kiln: 1
nodes:
  a: {class_type: EndingPure, inputs: {way: _exit}}
  b: {class_type: EndingPure, inputs: {way: _exit}}
  other: {class_type: EndingPure, inputs: {way: none, which: [a, INT]}}
  show: {class_type: Ending, inputs: {way: none, which: [other, INT]}}
  blank: {class_type: EmptyImage, inputs: {width: 160, height: 120, batch_size: 1, color: 1}}
  save: {class_type: SaveImage, inputs: {images: [blank, 0], filename_prefix: p}}
Y
rm -rf out events; run w.yaml --events events -v
[ $code -eq 3 ] && is_one_picture && one_stream events && grep -q "'show' (Ending) is skipped" run.txt; verdict what_hangs_on_it_is_skipped $?

# ---- a sweep: eight crashes of a type are enough, each other row is done once
cat >w.yaml <<'Y'
kiln: 1
params: {n: {default: 0}}
nodes:
  blank: {class_type: EmptyImage, inputs: {width: 96, height: 64, batch_size: 1, color: "${n}"}}
  save: {class_type: SaveImage, inputs: {images: [blank, 0], filename_prefix: "r"}}
  end: {class_type: Ending, inputs: {way: none, which: "${n}"}}
Y
printf 'n,end.way\n1,none\n2,_exit\n3,none\n4,kill\n5,_exit\n6,_exit\n7,kill\n8,_exit\n9,kill\n10,_exit\n11,kill\n12,none\n' >rows.csv
rm -rf out events cache; run w.yaml --over-file rows.csv --events events --sheet out/sheet.png --cache cache
python3 - <<'P' >>run.txt 2>&1
import json, os
rows = {}
for l in open("out/manifest.jsonl"):
    r = json.loads(l)
    assert r["row"] not in rows, "twice: %d" % r["row"]
    rows[r["row"]] = r
assert sorted(rows) == list(range(1, 13)), sorted(rows)
failed = [r for r in rows if rows[r]["status"] == "failed"]
assert set(failed) >= {2, 4, 5, 6, 7, 8, 9, 10, 11} and not {1, 3} & set(failed), failed
pictures = [f for r in rows.values() for f in r["files"]]
assert len(pictures) == len(set(pictures)) == 12 and all(os.path.exists("out/" + f) for f in pictures), pictures
assert len([f for f in os.listdir("out") if f.startswith("r_")]) == 12
P
[ $? -eq 0 ] && [ $code -eq 3 ] && one_stream events && [ -s out/sheet.png ] && grep -q 'have ended 8 processes of this run and are not called any more' run.txt; verdict a_sweep $?
run w.yaml --over-file rows.csv --cache cache
grep -q '2 done before' run.txt; verdict the_sweep_again_runs_what_failed $?

# ---- nothing is kept: what was finished comes from a folder that goes with the run
printf 'kiln: 1\nnodes:\n  slow: {class_type: EndingPure, inputs: {way: slow}}\n  end: {class_type: Ending, inputs: {way: _exit, which: [slow, INT]}}\n  show: {class_type: Ending, inputs: {way: none, which: [slow, INT]}}\n' >w.yaml
for how in --no-cache --cache=off KILN_CACHE=off; do
    rm -rf events xdg
    if [ $how = KILN_CACHE=off ]; then KILN_CACHE=off run w.yaml --events events --jobs 1; else run w.yaml $how --events events --jobs 1; fi
    [ $code -eq 3 ] && [ "$(grep -c '"event": "progress".*"node": "slow"' events)" -gt 5 ] && [ "$(grep -c '"event": "node_done".*"node": "slow"' events)" -eq 1 ] &&
        [ "$(grep -c '"node": "slow".*"done": 0,' events)" -eq 1 ] && [ -z "$(ls -A tmp)" ]
    verdict "without_a_cache_$how" $?
done
[ ! -e xdg/kiln/index ] && [ -z "$(find xdg -name '*.sqlite' 2>/dev/null)" ]; verdict nothing_is_left_in_the_cache $?

# ---- killed in the middle: the temporary folder goes with the next run
printf 'kiln: 1\nnodes:\n  end: {class_type: Ending, inputs: {way: hang}}\n' >hang.yaml
"$kiln" run hang.yaml --plugins plugins --no-cache --out out >/dev/null 2>&1 & pid=$!
for _ in $(seq 200); do child=$(cat /proc/$pid/task/$pid/children 2>/dev/null); [ -n "$child" ] && [ -n "$(ls -A tmp)" ] && break; sleep 0.05; done
sleep 0.3
kill -9 $pid; wait $pid 2>/dev/null
lives() { [ -e "/proc/${1:-0}/stat" ] && ! grep -q '^[0-9]* (.*) Z' "/proc/$1/stat"; }
for _ in $(seq 100); do lives $child || break; sleep 0.05; done
[ -n "$child" ] && ! lives $child; verdict the_run_goes_with_its_parent $?
workflow Ending none >w.yaml; rm -rf out; run w.yaml --no-cache
[ $code -eq 0 ] && [ -z "$(ls -A tmp)" ]; verdict a_folder_left_behind_is_removed $?

# ---- the same seed after a crash, and a workflow that is read from a pipe
cat >w.yaml <<'Y'
kiln: 1
nodes:
  end: {class_type: Ending, inputs: {way: _exit}}
  noise: {class_type: RandomNoise, inputs: {noise_seed: random}}
  blank: {class_type: EmptyImage, inputs: {width: 96, height: 64, batch_size: 1, color: 1}}
  save: {class_type: SaveImage, inputs: {images: [blank, 0], filename_prefix: p}}
Y
rm -rf out; run - < <(cat w.yaml); [ $code -eq 3 ] && is_one_picture; verdict a_workflow_from_a_pipe $?
rm -rf out; "$kiln" run <(cat w.yaml) --plugins plugins --out out >paths.txt 2>run.txt; [ $? -eq 3 ] && is_one_picture; verdict a_workflow_from_a_shells_pipe $?
sed -i '/noise/d; s/color: 1/color: 2/' w.yaml
printf '  k: {class_type: EndingPure, inputs: {way: none}}\n' >>w.yaml

# ---- -o, and files that were half done when somebody else ended the process
cat >w.yaml <<'Y'
kiln: 1
nodes:
  blank: {class_type: EmptyImage, inputs: {width: 96, height: 64, batch_size: 6, color: 1}}
  save: {class_type: SaveImage, inputs: {images: [blank, 0], filename_prefix: p}}
  end: {class_type: EndingAfter}
Y
cat >after.c <<'C'
/* Waits for the second picture, and ends the process. */
#include "kiln/plugin.h"
#include <stdlib.h>
#include <unistd.h>
static kiln_status run(const kiln_call *c)
{
    (void)c;
    for (int i = 0; i < 400 && access(getenv("KILN_TEST_PICTURE"), F_OK) != 0; i++) usleep(5000);
    _exit(0);
}
static const kiln_node node = {.size = sizeof node, .flags = KILN_NODE_OUTPUT, .devices = KILN_CPU, .revision = 1, .type = "EndingAfter", .doc = "Ends.", .run = run};
KILN_PLUGIN("org.example.after", "1.0.0", "MIT", &node);
C
gcc -std=c11 -D_GNU_SOURCE -O0 -w -fPIC -shared -I"$KILN_ROOT/include" after.c -o plugins/after.so || exit 2
rm -rf out events; KILN_TEST_PICTURE=$work/out/p_00002_.png run w.yaml --events events
[ $code -eq 3 ] && one_stream events && [ "$(ls out | wc -l)" -eq 6 ] && [ "$(sort -u paths.txt | grep -c png)" -eq 6 ] && [ "$(grep -c png paths.txt)" -eq 6 ]; verdict half_of_the_files_were_there $?
rm -rf out; KILN_TEST_PICTURE=$work/out/q.png "$kiln" run w.yaml --plugins plugins -o out/q.png >paths.txt 2>run.txt
[ $? -eq 3 ] && [ -e out/q.png ] && [ "$(ls out | wc -l)" -eq 6 ]; verdict half_of_them_with_a_name_of_its_own $?
rm plugins/after.so

# ---- a trace is one document
workflow Ending _exit >w.yaml; rm -rf out; run w.yaml --trace trace.json
python3 -c 'import json; json.load(open("trace.json"))' 2>>run.txt; verdict the_trace_is_json $?

# ---- a dry run ends with a sentence, and so does one whose input is gone
mkfifo pipe; workflow Ending _exit >f.yaml; rm -rf out; (cat f.yaml >pipe &); run pipe
[ $code -ne 0 ] && grep -q "kiln: error: node 'last words' (Ending): plugin org.example.ending: ended the process" run.txt; verdict what_can_be_read_once $?

# ---- --trust: no second process, and a crash ends the run as it did
if [ $ours -eq 1 ]; then
    workflow Ending segv >w.yaml
    for name in all ending ending.so org.example.ending; do
        run w.yaml --trust $name
        [ $code -eq 139 ] && grep -q "kiln: error: node 'last words' (Ending) of plugin org.example.ending crashed with SIGSEGV; results kept before are intact" run.txt; verdict "trust_$name" $?
    done
    run w.yaml --trust other; [ $code -eq 3 ] && grep -q 'warning.*--trust other: no plugin has this id, file name or path' run.txt && [ "$(grep -c -- '--trust other' run.txt)" -eq 1 ]
    verdict trust_of_another_is_not_its_own $?
    printf 'run:\n  trust: [other, ending]\n' >config.yaml
    KILN_CONFIG=config.yaml run w.yaml; [ $code -eq 139 ] && ! grep -q -- '--trust other' run.txt; verdict trust_in_the_configuration $?
fi

# ---- kiln's own plugins run in kiln's own process
workflow Ending none | grep -v 'last words' >w.yaml
ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" "$kiln" run w.yaml --out out --set save.filename_prefix=own >paths.txt 2>run.txt & pid=$! # who looks for leaks is a process, too
seen=; for _ in $(seq 400); do [ -n "$(cat /proc/$pid/task/$pid/children 2>/dev/null)" ] && seen=1; kill -0 $pid 2>/dev/null || break; done
wait $pid; [ -z "$seen" ]; verdict no_second_process_for_kilns_own $?
exit $status
