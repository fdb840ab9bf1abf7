# test_cache.sh - what is kept between runs as its users meet it: what hits, what misses, ingredient by ingredient, both ways;
# damage; the options; `kiln cache`. On tests/golden/tiny-sd1, a copy of it where files are changed.
. "$KILN_ROOT/tests/cli/head.sh"
unset KILN_CACHE
export XDG_CACHE_HOME="$work/xdg" # remembered plugin probes too

mkdir "$work/models" && cp -r tests/golden/tiny-sd1 "$work/models/one"
find "$work/models" -type f -exec touch -d '10 seconds ago' {} +
cp workflows/txt2img.yaml "$work/w.yaml"
sleep 2.1 # files this young are not remembered: they could change without their times changing
# run ARGS...: the names of the nodes that were computed, in order; the picture is $work/out/kiln_00001_.png
run() {
    rm -rf "$work/out"
    "$kiln" run "$work/w.yaml" --models "$work/models" --set model.ckpt_name=one --set empty.width=64 --set empty.height=64 --set steps=2 --cache "$work/c" \
        --out "$work/out" --events "$work/events" "$@" >/dev/null 2>"$work/log" || echo "failed: $(cat "$work/log")"
    sed -nE 's/.*"node_done".*"node": "([^"]*)".*"from": "computed".*/\1/p' "$work/events" | sort | tr '\n' ' '
}
picture() { cksum <"$work/out/kiln_00001_.png"; }
all="decode empty model negative positive sampler save "

# ---- the second run
same first_run_computes_everything "$(run)" "$all"; first=$(picture)
same second_run_computes_only_what_writes "$(run)" "save "; same same_picture_from_the_cache "$(picture)" "$first"
if command -v strace >/dev/null; then
    strace -f -e trace=openat,open -o "$work/trace" "$kiln" run "$work/w.yaml" --models "$work/models" --set model.ckpt_name=one --set empty.width=64 --set empty.height=64 --set steps=2 -q --cache "$work/c" --out "$work/s" >/dev/null 2>&1
    same second_run_opens_no_model_file "$(grep -c 'models/one/.*\.\(safetensors\|json\|txt\)"' "$work/trace")" 0
else
    echo "skip second_run_opens_no_model_file: no strace here"
fi

# ---- what matters misses, and nothing more than hangs on it
same a_seed_matters "$(run --set seed=99)" "decode model sampler save "
same steps_matter "$(run --set steps=3)" "decode model sampler save "
same cfg_matters "$(run --set cfg=3)" "decode model sampler save "
same a_prompt_encodes_one_text "$(run --set 'prompt=a dog')" "decode model positive sampler save "
same a_size_matters "$(run --set empty.width=72)" "decode empty model sampler save "
same a_sampler_matters "$(run --set sampler.sampler_name=heun)" "decode model sampler save "
same precision_matters_on_the_device "$(run --precision f32)" "decode model negative positive sampler save "
same the_instructions_matter_on_the_device "$(KILN_CPU_FEATURES=none run --precision f32)" "decode model negative positive sampler save "
mkdir "$work/plugins" && cp -r "$KILN_BUILD"/plugins/* "$work/plugins" && chmod 755 "$work/plugins" && printf '\0' >>"$work/plugins/kiln-sampler.so" && chmod -R go-w "$work"/plugins
same the_plugins_content_matters "$(run --plugins "$work/plugins")" "decode model sampler save "

# ---- what does not matter hits
same threads_do_not_matter "$(run --threads 1)" "save "
same nodes_at_once_do_not_matter "$(run --jobs 1)" "save "
sed -e 's/^  sampler:/  zz_sampler:/; s/\[sampler, /[zz_sampler, /g' workflows/txt2img.yaml >"$work/w.yaml"
same a_nodes_name_does_not_matter "$(run)" "save "
python3 - workflows/txt2img.yaml "$work/w.yaml" <<'P' 2>/dev/null || true
import re, sys
head, nodes = open(sys.argv[1]).read().split("nodes:\n", 1)
parts = re.split(r"(?m)^(?=  \w)", nodes)
open(sys.argv[2], "w").write(head + "nodes:\n" + "".join(reversed([p if p.endswith("\n") else p + "\n" for p in parts if p.strip()])))
P
same the_order_of_nodes_does_not_matter "$(run)" "save "
cp workflows/txt2img.yaml "$work/w.yaml"
cp -r "$work/models/one" "$work/models/two"
computed=$("$kiln" run "$work/w.yaml" --models "$work/models" --set model.ckpt_name=two --set empty.width=64 --set empty.height=64 --set steps=2 -q --cache "$work/c" --out "$work/two" --events "$work/events" >/dev/null 2>&1; grep -c '"from": "computed"' "$work/events")
same a_copied_model_hits "$computed" 1
touch -d '5 seconds ago' "$work/models/one/unet/"*.safetensors
same a_touched_model_hits "$(run)" "save "
python3 - "$work/models/one/unet/"*.safetensors <<'P'
import sys
f = open(sys.argv[1], "r+b"); f.seek(-2, 2); b = f.read(2); f.seek(-2, 2); f.write(bytes([b[0] ^ 64, b[1]]))
P
same a_model_replaced_under_its_name_misses "$(run)" "decode model negative positive sampler save "
rm -rf "$work/models/one" && mv "$work/models/two" "$work/models/one"
same and_hits_when_it_is_back "$(run)" "save "

# ---- options
same no_cache_computes_everything "$("$kiln" run "$work/w.yaml" --models "$work/models" --set model.ckpt_name=one --set empty.width=64 --set empty.height=64 --set steps=2 -q --no-cache --out "$work/n" --events "$work/events" >/dev/null 2>&1; grep -c '"from": "computed"' "$work/events")" 7
KILN_CACHE="$work/env" "$kiln" run workflows/txt2img.yaml --models tests/golden --set model.ckpt_name=tiny-sd1 --set empty.width=64 --set empty.height=64 --set steps=1 -q --out "$work/n" >/dev/null 2>&1
[ -s "$work/env/index.sqlite" ] && ok the_environment_names_the_folder || bad the_environment_names_the_folder "no index there"
expect() { # NAME PART-OF-STDERR COMMAND...: exit status 2 and what is said
    local name=$1 part=$2 got; shift 2
    "$@" >/dev/null 2>"$work/log"; got=$?
    if [ $got -eq 2 ] && grep -qF -- "$part" "$work/log"; then ok "$name"; else bad "$name" "status $got: $(head -n 2 "$work/log")"; fi
}
expect cache_size_is_read "it is a size" "$kiln" run "$work/w.yaml" --cache-size much
expect cache_and_no_cache "which?" "$kiln" run "$work/w.yaml" --cache "$work/c" --no-cache
expect save_state_is_read "number of seconds" "$kiln" run "$work/w.yaml" --save-state -3
mkdir "$work/open" && chmod 777 "$work/open"
"$kiln" run "$work/w.yaml" --models "$work/models" --set model.ckpt_name=one --set empty.width=64 --set empty.height=64 --set steps=1 --cache "$work/open" --out "$work/n" >/dev/null 2>"$work/log"
same a_folder_of_everybody_costs_only_the_keeping "$?" 0
grep -q 'chmod go-w' "$work/log" && [ -z "$(ls "$work/open")" ] && ok a_folder_of_everybody_is_refused || bad a_folder_of_everybody_is_refused "$(cat "$work/log"; ls "$work/open")"
"$kiln" run "$work/w.yaml" --models "$work/models" --set model.ckpt_name=one --set empty.width=64 --set empty.height=64 --set steps=2 --set seed=5 --cache "$work/c" --dry-run >"$work/dry" 2>&1
grep -qE '^negative .* cached ' "$work/dry" && grep -qE '^sampler .* run .* s ' "$work/dry" && grep -q '3 from the cache' "$work/dry" && ok dry_run_tells_what_would_run || bad dry_run_tells_what_would_run "$(cat "$work/dry")"

# ---- damage: a bit in each large value and in the index
run --set seed=31 --set empty.width=256 --set empty.height=256 >/dev/null; before=$(picture)
for f in "$work"/c/values/[0-9a-f][0-9a-f]/*; do printf 'X' | dd of="$f" bs=1 seek=5000 conv=notrunc status=none; done
got=$(run --set seed=31 --set empty.width=256 --set empty.height=256)
same a_damaged_value_is_computed_again "$got" "decode model save "
same with_the_same_bytes "$(picture)" "$before"
same and_is_told_once "$(grep -c 'damaged' "$work/log")" 1
run --set seed=31 --set empty.width=256 --set empty.height=256 >/dev/null
same and_never_again "$(grep -c 'damaged' "$work/log")" 0
printf 'garbage garbage garbage' | dd of="$work/c/index.sqlite" conv=notrunc status=none
same a_damaged_index_is_begun_anew "$(run)" "$all"
same and_moved_aside "$(ls "$work"/c/index.sqlite.aside-1 2>/dev/null | wc -l)" 1

# ---- kiln cache
run >/dev/null
"$kiln" cache ls --cache "$work/c" >"$work/ls" 2>&1 && grep -q KSampler "$work/ls" && ok cache_ls || bad cache_ls "$(cat "$work/ls")"
"$kiln" cache ls --json -n 0 --cache "$work/c" | python3 -c 'import json,sys; rows=[json.loads(l) for l in sys.stdin]; assert len(rows) == 5 and all(r["bytes"] > 0 for r in rows), rows' 2>"$work/log" && ok cache_ls_json || bad cache_ls_json "$(cat "$work/log")"
key=$(sed -nE 's/^([0-9a-f]{16})  VAEDecode.*/\1/p' "$work/ls" | head -n 1)
"$kiln" cache show "$key" --cache "$work/c" | grep -q 'type      VAEDecode' && ok cache_show || bad cache_show "key '$key'"
"$kiln" cache stat --json --cache "$work/c" | python3 -c 'import json,sys; t=json.load(sys.stdin); assert t["entries"] == 5 and t["journal"] in ("truncate", "wal"), t' 2>"$work/log" && ok cache_stat || bad cache_stat "$(cat "$work/log")"
"$kiln" cache verify --cache "$work/c" | grep -q '5 results read, 0 damaged' && ok cache_verify || bad cache_verify "no"
"$kiln" cache clear --type VAEDecode --cache "$work/c" >/dev/null && same cache_clear_type "$(run)" "decode model save "
"$kiln" cache gc --size 1 --cache "$work/c" >/dev/null && same cache_gc "$(run)" "$all"
"$kiln" cache clear --cache "$work/c" >/dev/null && same cache_clear "$(run)" "$all"
expect cache_show_needs_a_key "which key" "$kiln" cache show --cache "$work/c"
expect cache_knows_its_actions "did you mean 'stat'" "$kiln" cache stats --cache "$work/c"
expect cache_that_is_off "KILN_CACHE=off" env KILN_CACHE=off "$kiln" cache stat
expect cache_that_is_off_by_option "--cache off: nothing is kept" "$kiln" cache stat --cache off
for turn in 1 2; do # a second run has nothing to find, and no folder of that name is made
    (cd "$work" && "$kiln" run w.yaml --models models --set model.ckpt_name=one --set empty.width=64 --set empty.height=64 --set steps=1 --cache off --out off-out --events off-events) >/dev/null 2>"$work/log" || cat "$work/log"
done
same off_is_no_folder "$(ls -d "$work/off" 2>/dev/null) $(grep -c '"from": "computed"' "$work/off-events")" " 7"
expect cache_that_is_not_there "no cache at" "$kiln" cache ls --cache "$work/nowhere"
exit $status
