# test_run.sh - the command as its users meet it: what it draws, what it says, how it ends.
# Runs on tests/golden/tiny-sd1 (random weights), so that nothing depends on the model that ships.
. "$KILN_ROOT/tests/cli/head.sh"
tiny() { "$kiln" run workflows/txt2img.yaml --models tests/golden --set model.ckpt_name=tiny-sd1 --set empty.width=64 --set empty.height=64 --set steps=3 "$@"; }

expect_in=log

# ---- drawing
tiny --out "$work/a" >"$work/path" 2>"$work/log" && [ -s "$(cat "$work/path")" ] && ok draws_a_picture || bad draws_a_picture "$(tail -n 3 "$work/log")"
grep -q 'peak memory' "$work/log" && ok reports_peak_memory || bad reports_peak_memory "$(cat "$work/log")"
a="$work/a/kiln_00001_.png"
for threads in 1 2 3 4; do tiny -q --threads $threads --out "$work/threads" >/dev/null 2>&1; done
[ "$(cat "$work"/threads/*.png | cksum)" = "$(cat "$a" "$a" "$a" "$a" | cksum)" ] && ok same_bytes_whatever_the_threads || bad same_bytes_whatever_the_threads "they differ"
"$kiln" run "$a" --models tests/golden -q --out "$work/again" >/dev/null 2>"$work/log" && cmp -s "$a" "$work/again/kiln_00001_.png" && ok a_picture_runs_again || bad a_picture_runs_again "$(cat "$work/log")"
for change in seed=2 steps=4 cfg=2 "prompt=a cat" negative=dog sampler.denoise=0.5 sampler.sampler_name=heun sampler.scheduler=karras; do
    tiny -q --out "$work/s13" --set "$change" >/dev/null 2>"$work/log"
    last=$(ls "$work"/s13/*.png 2>/dev/null | tail -n 1)
    if [ -n "$last" ] && ! cmp -s "$a" "$last"; then ok "S13_option_has_an_effect_${change%%=*}"; else bad "S13_option_has_an_effect_${change%%=*}" "same picture, or none: $(cat "$work/log")"; fi
    rm -f "$work"/s13/*.png
done
tiny -q --precision f32 --out "$work/f32" >/dev/null 2>&1 && [ -s "$work/f32/kiln_00001_.png" ] && ok precision_f32 || bad precision_f32 "no picture"
"$kiln" run workflows/img2img.yaml --models tests/golden --set model.ckpt_name=tiny-sd1 --set "image=$a" -q --out "$work/i" >/dev/null 2>"$work/log" && [ -s "$work/i/kiln-img2img_00001_.png" ] && ok img2img || bad img2img "$(cat "$work/log")"

# ---- events, trace, explain, graph, check
tiny -q --out "$work/e" --events "$work/events" --trace "$work/trace" >/dev/null 2>&1
for event in run_start node_start progress node_done file run_done; do grep -q "\"event\": \"$event\"" "$work/events" && ok "event_$event" || bad "event_$event" "not in the events"; done
grep -q '"cat": "op"' "$work/trace" && tail -c 4 "$work/trace" | grep -q ']}' && ok trace_has_ops || bad trace_has_ops "no ops, or not closed"
# who reads the events slowly keeps nodes waiting before they begin, and not in what the trace says of them
python3 - "$kiln" "$work" <<'PY' >"$work/log" 2>&1; verdict ops_lie_within_their_nodes $?
import fcntl, json, os, subprocess, sys, time
kiln, work = sys.argv[1:]
ours, theirs = os.pipe2(os.O_DIRECT)  # a line at a time, of which one is under way
fcntl.fcntl(theirs, 1031, 4096)  # F_SETPIPE_SZ
run = subprocess.Popen([kiln, "run", "workflows/txt2img.yaml", "--models", "tests/golden", "--set", "model.ckpt_name=tiny-sd1", "--set", "steps=2", "--set", "empty.width=64", "--set", "empty.height=64", "--no-cache", "-q", "--out", work + "/slow", "--events", "-", "--trace", work + "/slow.trace"], stdout=theirs)
os.close(theirs)
while os.read(ours, 65536):
    time.sleep(0.05)
assert run.wait() == 0
events = json.load(open(work + "/slow.trace"))["traceEvents"]
nodes = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["cat"] == "node"]
ops = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["cat"] == "op"]
assert len(nodes) > 4 and len(ops) > 100, (len(nodes), len(ops))
outside = [op for op in ops if not any(a - 100 <= op[0] and op[1] <= b + 100 for a, b in nodes)]
assert not outside, f"{len(outside)} of {len(ops)} ops are outside: {outside[:3]}, nodes {nodes}"
PY
before=$(find "$work" -name '*.png' | wc -l)
tiny --explain >"$work/explain" 2>&1 && grep -q 'KSampler' "$work/explain" && [ "$(find "$work" -name '*.png' | wc -l)" = "$before" ] && ok explain_computes_nothing || bad explain_computes_nothing "$(cat "$work/explain")"
expect check_is_silent_when_right 0 "" "$kiln" check workflows/txt2img.yaml --models tests/golden --set model.ckpt_name=tiny-sd1

# ---- wrong input: a message with place and remedy, a status, nothing left behind
expect unknown_command 2 "did you mean 'run'" "$kiln" rnu
expect unknown_option 2 "did you mean '--threads'" "$kiln" run workflows/txt2img.yaml --treads 2
expect no_such_file 2 "nowhere.yaml: there is no such file" "$kiln" run nowhere.yaml
expect unknown_parameter 2 "no parameter or input is called that; did you mean 'seed'" tiny --set sed=1
expect unknown_node 2 "did you mean 'sampler'" tiny --set smapler.steps=3
expect out_of_range 2 "a whole number from 1 to 10000" tiny --set steps=0
expect S10_unknown_sampler 2 "did you mean 'euler'" tiny --set sampler.sampler_name=eulr
expect unknown_scheduler 2 "did you mean 'karras'" tiny --set sampler.scheduler=karas
expect unknown_model 2 "did you mean 'tiny-sd1'" tiny --set model.ckpt_name=tiny-sd2
expect leaving_the_folder 2 "'..'" tiny --set model.ckpt_name=../golden/tiny-sd1
expect bad_precision 2 "f32, bf16, f16 or auto" tiny --precision f64 --out "$work/x"
expect f16_is_not_for_the_processor 2 "--precision f16: this run is on 'cpu', which computes in f32 or bf16; take --precision bf16 or f32, or a CUDA device" tiny --device cpu --precision f16 --out "$work/half"
expect f16_explained_neither 2 "--precision f16: this run is on 'cpu'" tiny --device cpu --precision f16 --explain
[ -z "$(ls "$work/half" 2>/dev/null)" ] && ok f16_left_nothing || bad f16_left_nothing "$(ls "$work/half")"
expect bad_device 2 "it is auto, cpu, cuda" tiny --device gpu --out "$work/x"
expect bad_threads 2 "from 1 to 1024" tiny --threads 0
: >"$work/file"
expect unwritable_out 1 "$work/file" tiny --out "$work/file/below"
expect prefix_leaves_out 2 "holds '..'" tiny --set save.filename_prefix=../x --out "$work/x"
expect not_a_workflow_picture 2 "carries no workflow" "$kiln" run tests/judge/references/$(ls tests/judge/references | grep -m1 png)
printf '{"nodes": [], "links": []}' >"$work/ui.json"
expect an_empty_file_of_the_editor 2 "there are no nodes" "$kiln" run "$work/ui.json"

cp -r tests/golden/tiny-sd1 "$work/broken"
unet="$work/broken/unet/diffusion_pytorch_model.safetensors"
size=$(stat -c %s "$unet")
broken() { "$kiln" run workflows/txt2img.yaml --models "$work" --set model.ckpt_name=broken --out "$work/b"; }
truncate -s $((size - 100)) "$unet"
expect truncated_model 1 "diffusion_pytorch_model.safetensors" broken
cp tests/golden/tiny-sd1/unet/diffusion_pytorch_model.safetensors "$unet"
printf '\377\377\377\377' | dd of="$unet" bs=1 seek=2 conv=notrunc 2>/dev/null
expect bit_flipped_header 1 "diffusion_pytorch_model.safetensors" broken
cp tests/golden/tiny-sd1/unet/diffusion_pytorch_model.safetensors "$unet"
printf '\000\000\300\177' | dd of="$unet" bs=1 seek=$((size - 400)) conv=notrunc 2>/dev/null
expect M12_nan_in_a_weight 1 "NaN or infinity" broken
cp tests/golden/tiny-sd1/unet/diffusion_pytorch_model.safetensors "$unet"
rm -r "$work/broken/tokenizer"
"$kiln" run workflows/txt2img.yaml --models "$work" --set model.ckpt_name=broken --out "$work/b" >/dev/null 2>"$work/log" </dev/null
[ $? -ne 0 ] && grep -qi 'token' "$work/log" && ok missing_tokenizer || bad missing_tokenizer "$(tail -n 2 "$work/log")"
[ -z "$(find "$work/b" -type f 2>/dev/null)" ] && ok U1_nothing_left_behind || bad U1_nothing_left_behind "$(find "$work/b" -type f)"

# ---- one failing branch does not discard its sibling
cat >"$work/two.yaml" <<'Y'
nodes:
  empty: {class_type: EmptyImage, inputs: {width: 8, height: 8}}
  good: {class_type: SaveImage, inputs: {images: [empty, 0], filename_prefix: good}}
  text: {class_type: LoadImage, inputs: {image: two.yaml}}
  wrong: {class_type: SaveImage, inputs: {images: [text, 0], filename_prefix: bad}}
Y
expect a_failing_branch_is_partly_done 3 "node 'text' (LoadImage)" "$kiln" run "$work/two.yaml" --out "$work/two"
[ -s "$work/two/good_00001_.png" ] && ok its_sibling_is_finished || bad its_sibling_is_finished "no good_00001_.png"

# ---- Ctrl-C stops within a step and leaves nothing half done
timeout 60 "$kiln" run workflows/txt2img.yaml --models tests/golden --set model.ckpt_name=tiny-sd1 --set empty.width=512 --set empty.height=512 \
    --set steps=9999 --out "$work/c" >"$work/stdout" 2>"$work/log" & pid=$!
sleep 1.5; kill -INT $pid 2>/dev/null; wait $pid; got=$?
[ $got -eq 130 ] && [ -z "$(find "$work/c" -type f)" ] && ok interrupted_is_130_and_clean || bad interrupted_is_130_and_clean "status $got, $(find "$work/c" -type f | head -n 3), $(tail -n 2 "$work/log")"

# ---- many at once never share a name
for i in 1 2 3 4 5 6; do "$kiln" run "$work/two.yaml" --set good.filename_prefix=many --out "$work/many" -q >/dev/null 2>&1 & done; wait
[ "$(ls "$work"/many/many_*.png | wc -l)" = 6 ] && ok names_never_collide || bad names_never_collide "$(ls "$work/many")"
for command in run check graph nodes plugins inspect check-plugin; do "$kiln" $command --help | grep -q '^usage: kiln' && ok "help_$command" || bad "help_$command" "no usage line"; done
exit $status
