# test_control.sh - a stranger brings ControlNet and T2I-Adapter (control/): built against an installed kiln and nothing else, on kiln's own UNet of SD1,
# and held against diffusers: f32, 1e-5 of the largest value.
here="$KILN_ROOT/tests/strangers/control" models="$KILN_ROOT/tests/strangers/control/models:$KILN_ROOT/tests/golden"
. "$KILN_ROOT/tests/strangers/goldens/goldens.sh"
build control.so "$here"/*.c && build goldens.so "$KILN_ROOT/tests/strangers/goldens/golden_nodes.c"; verdict builds_against_the_installed_headers $?
! readelf -d "$work/plugins/control.so" | grep NEEDED | grep -qvE 'libc\.|libm\.|libjansson\.'; verdict links_nothing_of_kilns $?

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

# On a device, whose memory the controls' results never leave.
steps_only() { apply on_net_step "yes no" net dots 0.8; both net_step step; apply on_adapter_step "yes no" adapter_apart dots 1; both adapter_step step; apply first_odd "yes no" adapter odd 1; apply on_odd first_odd net_apart odd 0.6; both odd step x_odd; }
{ begin; steps_only; } >"$work/steps.yaml"
if on_device on_the_emulated_device "$work/steps.yaml"; then for name in net_step adapter_step odd; do as_golden ${name}_on_the_device on_the_emulated_device $name; done; fi

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

# What follows from the hint alone is computed once and kept from step to step: all of a T2I-Adapter, ControlNet's embedding of the hint.
case_name=adapter; adapter_case() { apply on_adapter "yes no" adapter dots 1; both adapter; }; one_case adapter_case
run kept "$work/adapter.yaml" --no-cache --trace "$work/kept.trace"
convolutions() { grep -c '"name": "conv2d".*"'"$2"'' "$work/$1.trace"; }
echo "# $(convolutions kept denoiser/control) convolutions of the T2I-Adapter in five steps, $(convolutions always denoiser/control) of the ControlNet"
[ "$(convolutions kept denoiser/control)" -eq 10 ] && [ "$(convolutions always denoiser/control)" -eq $((5 * 28 + 8)) ]; verdict features_of_the_hint_are_computed_once $?

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

# ---- bad use: a sentence that names node, input and remedy, and an exit status
build bad_controls.so "$KILN_ROOT/tests/strangers/goldens/bad_controls.c"; verdict bad_controls_build $?
needs() { # what these workflows use of the head, so that they warn of nothing
    begin | sed -n '1,/^nodes/p'
    begin | grep -E "^  ($1):"
    [ -z "$2" ] || begin | grep -E "^  $2:"
}
text_of_its_own='  other: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
  o_yes: {class_type: CLIPTextEncode, inputs: {clip: [other, CLIP], text: a}}
  o_no: {class_type: CLIPTextEncode, inputs: {clip: [other, CLIP], text: b}}'
ends() { # POSITIVE NEGATIVE [MODEL]
    echo "  drawn: {class_type: KSampler, inputs: {model: [${3:-model}, 0], positive: [$1], negative: [$2], latent_image: [x, 0], seed: 7, steps: 2, cfg: 3.0, sampler_name: euler, scheduler: normal}}"
    echo "  dump: {class_type: TestDump, inputs: {samples: [drawn, 0]}}"
}
bad() { # NAME WORDS: a conditioning with that control
    { needs 'model|net|yes|no|x'; echo "  bad: {class_type: TestBadControl, inputs: {conditioning: [yes, 0], control_net: [$([ "$1" = 'other value' ] && echo model || echo net), 0], what: $1}}"; ends "bad, 0" "no, 0"; } >"$work/bad.yaml"
    refused "control_${1// /_}" "$work/bad.yaml" 1 "node 'drawn' \(KSampler\): positive: $2"
}
bad number "entry 0 of its 'control' is no map with a control_net; ControlNetApply makes them"
bad 'empty map' "entry 0 of its 'control' is no map with a control_net; ControlNetApply makes them"
bad 'no list' "its 'control' has to be a list of at most 16 maps"
bad strength "a control's 'strength' has to be a number"
bad 'other value' "the control_net of entry 0 of its 'control' is a MODEL and no CONTROL_NET; a ControlNetLoader makes one"
bad 'plain data' "the control_net of entry 0 of its 'control' is plain data and no CONTROL_NET; a ControlNetLoader makes one"
hung() { # NODES NET IMAGE-INPUT: on both sides
    needs "model|$1|yes|no|x"
    echo "  on: {class_type: ExampleControlNetApply, inputs: {positive: [yes, 0], negative: [no, 0], control_net: [$2, 0]$3}}"; ends "on, 0" "on, 1"
}
hung net net >"$work/bad.yaml"
refused no_hint "$work/bad.yaml" 1 "node 'drawn' \(KSampler\): positive: the control 'example-controlnet' wants 'hint' \(an image: the picture that the result shall follow\), and the conditioning has no entry of that name"
{ hung 'net|dots' net ', image: [rgba, 0]'; echo '  mask: {class_type: SolidMask, inputs: {width: 160, height: 64}}'; echo '  rgba: {class_type: JoinImageWithAlpha, inputs: {image: [dots, 0], alpha: [mask, 0]}}'; } >"$work/bad.yaml"
refused a_hint_with_transparency "$work/bad.yaml" 1 "positive: its 'hint' is 4 wide but the control 'example-controlnet' wants 3; take one that was made for"
{ hung dots deep ', image: [dots, 0]'; echo '  deep: {class_type: ExampleControlNetLoader, inputs: {control_net_name: deep}}'; } >"$work/bad.yaml"
refused made_for_other_places "$work/bad.yaml" 1 "node 'drawn' \(KSampler\): .*the control 'example-controlnet' adds at 'output.8.skip', a place that this model does not have; it was made for another family of models"
{ hung dots apart ', image: [dots, 0]'; echo '  deep: {class_type: ExampleControlNetLoader, inputs: {control_net_name: deep}}'; echo '  apart: {class_type: ExampleControlNetApart, inputs: {control_net: [deep, 0]}}'; } >"$work/bad.yaml"
refused made_for_other_places_apart "$work/bad.yaml" 1 "node 'drawn' \(KSampler\): .*adds at 'output.8.skip', a place that this model does not have; it was made for another family of models"
{ needs 'adapter|dots|x'; echo "$text_of_its_own"; apply on "o_yes o_no" adapter dots 1; ends "on, 0" "on, 1" other; } >"$work/bad.yaml"
refused made_for_other_widths "$work/bad.yaml" 1 "node 'drawn' \(KSampler\): .*a control adds \[2,8,20,8\] at 'input.2', where the model has \[2,4,10,8\]; it was made for another family of models"
{ needs 'net|dots|x'; echo "$text_of_its_own"; apply on "o_yes o_no" net dots 1; ends "on, 0" "on, 1" other; } >"$work/bad.yaml"
refused made_for_other_tokens "$work/bad.yaml" 1 "positive: its 'tokens' is 32 wide but the control 'example-controlnet' wants 16; take one that was made for"
{ hung dots model ', image: [dots, 0]'; } >"$work/bad.yaml"
refused a_model_is_no_control "$work/bad.yaml" 2 "node 'on' \(ExampleControlNetApply\): input 'control_net' takes CONTROL_NET, but output 'MODEL' of 'model' \(UNETLoader\) is MODEL"
{ hung dots net ', image: [dots, 0]'; echo "  net: {class_type: ExampleControlNetLoader, inputs: {control_net_name: $here/models/diffusion_models/tiny}}"; } >"$work/bad.yaml"
refused no_control_in_the_file "$work/bad.yaml" 1 "node 'net' \(ExampleControlNetLoader\): .*models/tiny: no loaded plugin knows a control in it"
exit $status
