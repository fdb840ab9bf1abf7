# test_flux.sh - a stranger brings Flux.1 (flux/): T5 with its unigram tokenizer beside kiln's CLIP L in one CLIP, a prompt for each through kiln.text, a
# transformer of double and single blocks, three axes of places, guidance as an input. Built against an installed kiln and nothing else, and held against diffusers and transformers: f32 1e-5 of the largest value,
# bf16 2e-2.
here="$KILN_ROOT/tests/strangers/flux" input="$KILN_ROOT/tests/strangers/flux"
. "$KILN_ROOT/tests/strangers/goldens/goldens.sh"
build flux.so "$here"/*.c && build goldens.so "$KILN_ROOT/tests/strangers/goldens/golden_nodes.c"; verdict builds_against_the_installed_headers $?
[ -z "$(readelf -d "$work/plugins/flux.so" | grep NEEDED | grep -vE 'libc\.|libm\.|libjansson\.')" ]; verdict links_nothing_of_kilns $?
"$kiln" check-plugin "$work/plugins/flux.so" >"$work/checked.txt" 2>&1; result=$?; [ $result -eq 0 ] || tail -n 5 "$work/checked.txt"; verdict check_plugin_finds_nothing $result

l="A red fox by the river, at night"
t5="An owl and 2 foxes by the river: smoke rises over the blue house… seriously?"
begin() { # [FIRST FILE] [SECOND FILE] [PROMPT OF T5]
    cat <<END
kiln: 1
nodes:
  clip: {class_type: ExampleFluxCLIPLoader, inputs: {clip_name1: ${1:-clip_l.safetensors}, clip_name2: ${2:-t5.safetensors}}}
  model: {class_type: UNETLoader, inputs: {unet_name: flux.safetensors}}
  yes: {class_type: ExampleCLIPTextEncodeFlux, inputs: {clip: [clip, 0], clip_l: "$l", t5xxl: "${3:-$t5}"}}
  less: {class_type: ExampleCLIPTextEncodeFlux, inputs: {clip: [clip, 0], clip_l: "$l", t5xxl: "${3:-$t5}", guidance: 1.0}}
  empty: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: empty}}
  two: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: two}}
END
}
part() { echo "  $1: {class_type: TestEntry, inputs: {conditioning: [yes, 0], key: $1}}"; golden "$1"; }
sample() { # NAME LATENT SEED STEPS [CONDITIONING]
    echo "  $1: {class_type: KSampler, inputs: {model: [model, 0], positive: [${5:-yes}, 0], negative: [${5:-yes}, 0], latent_image: [$2, 0], seed: $3, steps: $4, cfg: 1.0, sampler_name: euler, scheduler: simple}}"
}
golden() { echo "  golden_$1: {class_type: TestGolden, inputs: {value: [$1, 0], file: goldens.safetensors, name: golden.$1}}"; }
all_cases() {
    begin; part tokens; part pooled
    sample one empty 5 1; golden one
    sample whole empty 5 6; golden whole
    sample weak empty 5 6 less; golden weak
    sample batch two 6 4; golden batch
}
all_cases >"$work/all.yaml"
run all "$work/all.yaml" --no-cache; verdict runs $?
for name in tokens pooled one whole weak batch; do as_golden $name all; done
! grep -q 'is not used by any network' "$work/all.txt"; verdict every_weight_is_asked_for $?

# in bf16
"$kiln" run "$work/all.yaml" --no-cache --precision bf16 --plugins "$work/plugins" --models "$here/models" --input "$here" --out "$work/bf16" >"$work/bf16.txt" 2>&1
for name in tokens pooled one whole batch; do
    error=$(sed -n "s/^golden golden\.$name //p" "$work/bf16.txt")
    awk -v e="${error:-none}" 'BEGIN { exit !(e != "none" && e != "nan" && e + 0 <= 2e-2) }'; result=$?
    echo "# ${name}_bf16: ${error:-not compared}"; verdict "${name}_bf16" $result
done

# looked at without running, the same bytes for any number of threads, taken up again after a kill
run dry "$work/all.yaml" --no-cache --dry-run && ! grep -q '^golden golden' "$work/dry.txt"; verdict a_dry_run_runs_nothing $?
run explained "$work/all.yaml" --no-cache --explain && grep -qE '^yes +ExampleCLIPTextEncodeFlu[x]? +[0-9a-f]+ +[0-9.]+ kB' "$work/explained.txt"; verdict is_explained $?
{ begin; sample whole empty 5 6; echo '  dump: {class_type: TestDump, inputs: {samples: [whole, 0]}}'; } >"$work/dump.yaml"
run one_thread "$work/dump.yaml" --no-cache --threads 1; run four_threads "$work/dump.yaml" --no-cache --threads 4
cmp "$work/one_thread/samples_00001_.f32" "$work/four_threads/samples_00001_.f32"; verdict the_same_bytes_for_any_threads $?
in_the_least_memory "$work/dump.yaml" samples_00001_.f32 "$work/one_thread/samples_00001_.f32"; verdict the_same_bytes_in_the_least_memory $?
{ begin; sample long empty 5 400; echo '  dump: {class_type: TestDump, inputs: {samples: [long, 0]}}'; } >"$work/long.yaml"
resumes_after_a_kill "$work/long.yaml"; verdict killed_it_goes_on $?

# on a device, where there is an emulated one
on_device device "$work/all.yaml" && for name in tokens pooled one whole batch; do as_golden "${name}_on_the_device" device $name; done

# bad use
case_of() { sample one empty 5 1; golden one; }
{ begin t5.safetensors clip_l.safetensors; sample whole empty 5 6; golden whole; } >"$work/turned.yaml"
run turned "$work/turned.yaml" --no-cache; as_golden in_the_other_order turned whole
{ begin | sed "s/^  yes:.*/  yes: {class_type: CLIPTextEncode, inputs: {clip: [clip, 0], text: \"$l\"}}/"; sample one empty 5 1; echo '  dump: {class_type: TestDump, inputs: {samples: [one, 0]}}'; } >"$work/same.yaml"
run same "$work/same.yaml" --no-cache && [ -e "$work/same/samples_00001_.f32" ]; verdict one_prompt_for_both $?
{ begin t5.safetensors t5.safetensors; case_of; } >"$work/twice.yaml"
refused the_same_encoder_twice "$work/twice.yaml" 1 "node 'clip' \(ExampleFluxCLIPLoader\): both files are the encoder 't5xxl'; Flux wants CLIP L and T5"
{ begin; echo '  lone: {class_type: CLIPLoader, inputs: {clip_name: clip_l.safetensors}}'; case_of; } | sed 's/clip: \[clip, 0\]/clip: [lone, 0]/' >"$work/lone.yaml"
refused a_clip_without_t5 "$work/lone.yaml" 1 "node 'yes' \(ExampleCLIPTextEncodeFlux\): .*t5xxl"
{
    begin; sample one flat 5 1; golden one
    echo '  flat: {class_type: EmptyLatentImage, inputs: {width: 72, height: 64}}'
} >"$work/odd.yaml"
refused half_a_patch "$work/odd.yaml" 1 "node 'one' \(KSampler\): the model takes latents in patches of 2x2 cells"
exit $status
