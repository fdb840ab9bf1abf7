# test_control.sh - a stranger brings ControlNet and T2I-Adapter (control/): built against an installed kiln and nothing else, on kiln's own UNet of SD1,
# and held against diffusers: f32, 1e-5 of the largest value.
here="$KILN_ROOT/tests/strangers/control" models="$KILN_ROOT/tests/strangers/control/models:$KILN_ROOT/tests/golden"
. "$KILN_ROOT/tests/strangers/goldens/goldens.sh"
build control.so "$here"/*.c && build goldens.so "$KILN_ROOT/tests/strangers/goldens/golden_nodes.c"; verdict builds_against_the_installed_headers $?
[ -z "$(readelf -d "$work/plugins/control.so" | grep NEEDED | grep -vE 'libc\.|libm\.|libjansson\.')" ]; verdict links_nothing_of_kilns $?

# ---- workflows
begin() {
    cat <<END
kiln: 1
params:
  strength: {default: 0.8, help: of the control}
nodes:
  model: {class_type: UNETLoader, inputs: {unet_name: tiny}}
  net: {class_type: ExampleControlNetLoader, inputs: {control_net_name: tiny}}
  adapter: {class_type: ExampleControlNetLoader, inputs: {control_net_name: adapter}}
  net_apart: {class_type: ExampleControlNetApart, inputs: {control_net: [net, 0]}}
  adapter_apart: {class_type: ExampleControlNetApart, inputs: {control_net: [adapter, 0]}}
  dots: {class_type: LoadImage, inputs: {image: dots.png}}
  bars: {class_type: LoadImage, inputs: {image: bars.png}}
  odd: {class_type: LoadImage, inputs: {image: odd.png}}
  pair: {class_type: ImageBatch, inputs: {image1: [dots, IMAGE], image2: [bars, IMAGE]}}
  yes: {class_type: TestConditioning, inputs: {file: goldens.safetensors, name: positive}}
  no: {class_type: TestConditioning, inputs: {file: goldens.safetensors, name: negative}}
  x: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: x}}
  x2: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: x2}}
  x_odd: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: x_odd}}
  none: {class_type: DisableNoise}
  euler: {class_type: KSamplerSelect, inputs: {sampler_name: euler}}
  steps: {class_type: ManualSigmas, inputs: {sigmas: "12.0, 4.0, 2.0, 1.0, 0.3, 0.0"}}
  step: {class_type: ManualSigmas, inputs: {sigmas: "5.0, 0.0"}}
END
}
apply() { # NAME CONDITIONINGS NET IMAGE STRENGTH [START END]: CONDITIONINGS is the node that gives both, or "POSITIVE NEGATIVE"
    local yes no; read -r yes no <<<"$2"
    echo "  $1: {class_type: ExampleControlNetApply, inputs: {positive: [$yes, 0], negative: [${no:-$yes}, $([ -n "$no" ] && echo 0 || echo 1)], control_net: [$3, 0], image: [$4, 0], strength: $5, start_percent: ${6:-0}, end_percent: ${7:-1}}}"
}
sample() { # NAME POSITIVE NEGATIVE [LEVELS [LATENT [MODEL]]]: each an output such as "yes, 0"
    cat <<END
  ${1}_guider: {class_type: CFGGuider, inputs: {model: [${6:-model}, 0], positive: [$2], negative: [$3], cfg: 3.0}}
  ${1}_latent: {class_type: SamplerCustomAdvanced, inputs: {noise: [none, 0], guider: [${1}_guider, 0], sampler: [euler, 0], sigmas: [${4:-steps}, 0], latent_image: [${5:-x}, 0]}}
  ${1}_golden: {class_type: TestGolden, inputs: {value: [${1}_latent, 0], file: goldens.safetensors, name: golden.$1}}
END
}
both() { sample "$1" "on_$1, 0" "on_$1, 1" "${@:2}"; }
all_cases() {
    sample plain "yes, 0" "no, 0"
    apply on_net_step "yes no" net dots 0.8; both net_step step
    apply on_net "yes no" net dots 0.8; both net
    apply on_adapter_step "yes no" adapter dots 1; both adapter_step step
    apply on_adapter "yes no" adapter dots 1; both adapter
    apply first_both_kinds "yes no" net dots 0.7; apply on_both_kinds first_both_kinds adapter bars 0.4; both both_kinds
    apply first_two_nets "yes no" net dots 0.7; apply on_two_nets first_two_nets net bars 0.4; both two_nets
    apply on_range "yes no" net dots 0.8 0.2 0.7; both range
    apply on_weaker "yes no" net dots 0.3; both weaker
    apply on_positive_only "yes no" net dots 0.8; sample positive_only "on_positive_only, 0" "no, 0"
    apply on_pair_one_hint "yes no" net dots 0.8; both pair_one_hint steps x2
    apply first_pair_two_hints "yes no" net pair 0.8; apply on_pair_two_hints first_pair_two_hints adapter pair 0.5; both pair_two_hints steps x2
    apply left "yes no" net dots 0.8; apply right "no yes" adapter bars 0.5
    echo "  left_area: {class_type: ConditioningSetArea, inputs: {conditioning: [left, 0], width: 64, height: 64, x: 0, y: 0, strength: 1.0}}"
    echo "  right_area: {class_type: ConditioningSetArea, inputs: {conditioning: [right, 0], width: 96, height: 64, x: 64, y: 0, strength: 1.0}}"
    echo "  areas: {class_type: ConditioningCombine, inputs: {conditioning_1: [left_area, 0], conditioning_2: [right_area, 0]}}"
    sample areas "areas, 0" "no, 0"
    apply first_odd "yes no" adapter odd 1; apply on_odd first_odd net odd 0.6; both odd step x_odd
    echo "  lora_model: {class_type: LoraLoaderModelOnly, inputs: {model: [model, 0], lora_name: tiny.safetensors, strength_model: 0.5}}"
    apply on_lora "yes no" net dots 0.8; both lora steps x lora_model
}
cases="plain net_step net adapter_step adapter both_kinds two_nets range weaker positive_only pair_one_hint pair_two_hints areas odd lora"
{ begin; all_cases; } >"$work/all.yaml"

# ---- against diffusers
run all "$work/all.yaml" --no-cache; verdict everything_is_sampled $?
for name in $cases; do as_golden $name all; done
# The same with the controls as programs of their own, and with one such beside one in the denoiser's program.
apart() { sed "s/control_net: \[$1, 0\], image/control_net: [${2}_apart, 0], image/"; }
apart '\(net\|adapter\)' '\1' <"$work/all.yaml" >"$work/all_apart.yaml"; apart net net <"$work/all.yaml" >"$work/net_apart.yaml"
run all_apart "$work/all_apart.yaml" --no-cache; verdict everything_is_sampled_apart $?
for name in $cases; do as_golden ${name}_apart all_apart $name; done
run net_apart "$work/net_apart.yaml" --no-cache; verdict one_apart_beside_one_within $?
for name in both_kinds pair_two_hints areas odd; do as_golden ${name}_one_apart net_apart $name; done

# ---- what is computed: outside its range, and at strength 0, nothing of a control is in the program
controlled_steps() { grep -c '"name": "timestep_embedding".*"denoiser/control ' "$work/$1.trace"; } # ControlNet's own time embedding: one a step
one_case() { { begin; "$@"; echo "  dump: {class_type: TestDump, inputs: {samples: [${case_name}_latent, 0]}}"; } >"$work/$case_name.yaml"; }
case_name=net; net_case() { apply on_net "yes no" net dots "\"\${strength}\""; both net; }; one_case net_case
case_name=range; range_case() { apply on_range "yes no" net dots 0.8 0.2 0.7; both range; }; one_case range_case
run always "$work/net.yaml" --no-cache --trace "$work/always.trace" && [ "$(controlled_steps always)" -eq 5 ]; verdict computed_in_each_step $?
run ranged "$work/range.yaml" --no-cache --trace "$work/ranged.trace" && [ "$(controlled_steps ranged)" -eq 3 ]; verdict outside_its_range_it_is_not_computed $?
run zero "$work/net.yaml" --no-cache --set strength=0 --trace "$work/zero.trace"
[ "$(controlled_steps zero)" -eq 0 ]; verdict at_strength_0_it_is_not_computed $?
case_name=plain; plain_case() { sample plain "yes, 0" "no, 0"; }; one_case plain_case
run without "$work/plain.yaml" --no-cache; cmp "$work/zero/samples_00001_.f32" "$work/without/samples_00001_.f32"; verdict strength_0_gives_the_same_bytes_as_none $?
levels() { echo "  sampled_$1: {class_type: KSampler, inputs: {model: [model, 0], positive: [$2], negative: [$3], latent_image: [x, 0], seed: 1, steps: 10, cfg: 3.0, sampler_name: euler, scheduler: normal}}"; }
{ begin; apply on_net "yes no" net dots 0.8; apply on_range "yes no" net dots 0.8 0.2 0.7; levels plain "yes, 0" "no, 0"; levels net "on_net, 0" "on_net, 1"; levels range "on_range, 0" "on_range, 1"; for k in plain net range; do echo "  dump_$k: {class_type: TestDump, inputs: {samples: [sampled_$k, 0]}}"; done; } >"$work/levels.yaml"
run explained "$work/levels.yaml" --no-cache --explain; run levels "$work/levels.yaml" --no-cache --trace "$work/levels.trace"
gflop() { sed -nE "s/^sampled_$1 .* ([0-9.]+)\$/\1/p" "$work/explained.txt"; }
awk -v plain="$(gflop plain)" -v net="$(gflop net)" -v range="$(gflop range)" -v steps="$(($(controlled_steps levels) - 10))" \
    'BEGIN { got = 10 * (range - plain) / (net - plain); exit !(plain > 0 && steps > 2 && steps < 8 && got > steps - 0.1 && got < steps + 0.1) }'
verdict explain_counts_the_steps_it_is_computed_in $?

# ---- what is recorded: once for a shape, whatever the strength; the two sides apart where only one has the control
recorded() { grep -c "$2: recorded for $3 " "$work/$1.txt"; }
strengths() { sample plain "yes, 0" "no, 0"; for s in 0.8 0.3 1.5; do apply "on_$s" "yes no" net dots $s; sample "net_$s" "on_$s, 0" "on_$s, 1" | grep -v golden; done; }
{ begin; strengths; for s in 0.8 0.3 1.5; do echo "  dump_$s: {class_type: TestDump, inputs: {samples: [net_${s}_latent, 0]}}"; done; } >"$work/strengths.yaml"
run strengths "$work/strengths.yaml" --no-cache -v && [ "$(recorded strengths ControlNet 2)" -eq 1 ] && [ "$(cksum <"$work/strengths/samples_00001_.f32")" != "$(cksum <"$work/strengths/samples_00002_.f32")" ]
verdict another_strength_records_nothing_anew $?
case_name=positive_only; positive_case() { apply on_positive_only "yes no" net dots 0.8; sample positive_only "on_positive_only, 0" "no, 0"; }; one_case positive_case
run apart "$work/positive_only.yaml" --no-cache -v && [ "$(recorded apart ControlNet 1)" -eq 1 ] && [ "$(recorded apart ControlNet 2)" -eq 0 ]; verdict on_one_side_the_sides_are_evaluated_apart $?
run together "$work/net.yaml" --no-cache -v && [ "$(recorded together ControlNet 2)" -eq 1 ] && [ "$(recorded together ControlNet 1)" -eq 0 ]; verdict on_both_sides_they_are_one_batch $?

# ---- looked at without running, and taken up again after a kill
run dry "$work/net.yaml" --no-cache --dry-run && ! [ -e "$work/dry/samples_00001_.f32" ]; verdict a_dry_run_runs_nothing $?
long() {
    begin
    echo '  big: {class_type: ImageScale, inputs: {image: [dots, 0], width: 256, height: 256, upscale_method: bilinear, crop: disabled}}'
    apply on_long "yes no" net big 0.8 0.1 0.9; apply on_both on_long adapter big 0.5
    echo '  empty: {class_type: EmptyLatentImage, inputs: {width: 256, height: 256, batch_size: 1}}'
    echo '  long: {class_type: KSampler, inputs: {model: [model, 0], positive: [on_both, 0], negative: [on_both, 1], latent_image: [empty, 0], seed: 7, steps: 60, cfg: 3.0, sampler_name: euler_ancestral, scheduler: normal}}'
    echo '  dump: {class_type: TestDump, inputs: {samples: [long, 0]}}'
}
long >"$work/long.yaml"
resumes_after_a_kill "$work/long.yaml"; verdict resumes_after_a_kill $?

exit $status
