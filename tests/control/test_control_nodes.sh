# test_control_nodes.sh - ControlNetLoader, ControlNetApply and ControlNetApplyAdvanced over a tiny UNet, held against diffusers at 1e-5; what is
# computed and recorded when, and what is said of bad use.
. "$KILN_ROOT/tests/cli/head.sh"
. "$KILN_ROOT/tests/control/control_workflows.sh"
golden_plugin && test_plugin tests/control/plugin/counted_control.c counted; verdict the_test_nodes_build $?

# ---- against diffusers: each case as a golden
{
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
    apply first_odd "yes no" adapter odd 1; apply on_odd first_odd net odd 0.6; both odd step x_odd
    # the old node gives it to both sides, unless the other has one of its own
    echo '  on_old: {class_type: ControlNetApply, inputs: {conditioning: [yes, 0], control_net: [net, 0], image: [dots, 0], strength: 0.8}}'
    sample old "on_old, 0" "no, 0"
    echo '  on_old_bars: {class_type: ControlNetApply, inputs: {conditioning: [no, 0], control_net: [net, 0], image: [bars, 0], strength: 0.4}}'
    sample old_own "on_old, 0" "on_old_bars, 0"; apply separate "no yes" net bars 0.4; sample separate "on_net, 0" "separate, 0"
    for name in net_step net adapter_step adapter both_kinds two_nets range weaker positive_only pair_one_hint pair_two_hints odd; do compare $name; done
    compare old net
    dump old_own; dump separate
} | workflow all
run all --no-cache; verdict everything_is_sampled $?
for name in net_step net adapter_step adapter both_kinds two_nets range weaker positive_only pair_one_hint pair_two_hints odd; do as_golden $name all; done
same the_old_node_is_for_both_sides "$(grep -c '^golden golden.net [0-9.]*e-0[6-9]' "$work/all.txt")" 2
cmp "$work/all/samples_00001_.f32" "$work/all/samples_00002_.f32"; verdict a_control_of_its_own_is_kept $?

# ---- what is computed: nothing of a control outside its range and at strength 0; the hint once
calls() { grep -cE "\"name\": \"$2\".*\"denoiser/control[ /]" "$work/$1.trace"; }
{ apply on_net "yes no" net dots "\"\${strength}\""; both net; dump net; } | workflow one
{ apply on_net "yes no" net dots 0.8 0.2 0.7; both net; dump net; } | workflow ranged
{ apply on_net "yes no" adapter dots 1; both net; dump net; } | workflow features
{ sample net "yes, 0" "no, 0"; dump net; } | workflow without
run one --no-cache --trace "$work/one.trace"; verdict it_is_run $?
same in_each_step "$(calls one timestep_embedding)" 5
run ranged --no-cache --trace "$work/ranged.trace"
same outside_its_range_it_is_not_computed "$(calls ranged timestep_embedding)" 3
echo "# $(calls one conv2d) convolutions of the ControlNet in five steps"
same the_hint_is_embedded_once "$(calls one conv2d)" $((5 * 28 + 8))
run features --no-cache --trace "$work/features.trace"
same an_adapter_is_computed_once "$(calls features conv2d)" 10
cp -r "$work/one" "$work/full"
run one --no-cache --set strength=0 --trace "$work/zero.trace"
same at_strength_0_nothing_is_computed "$(calls zero conv2d)" 0
run without --no-cache
cmp "$work/one/samples_00002_.f32" "$work/without/samples_00001_.f32"; verdict strength_0_gives_the_same_bytes_as_none $?
check strength_1_does_not sh -c "! cmp -s '$work/full/samples_00001_.f32' '$work/without/samples_00001_.f32'"

# Another strength records nothing anew.
{ echo '  counted: {class_type: TestCountedControl, inputs: {control_net: [net, 0]}}'; for s in 0.8 0.3 1.5; do apply "on_$s" "yes no" counted dots $s; sample "net_$s" "on_$s, 0" "on_$s, 1"; echo "  dump_$s: {class_type: TestDump, inputs: {samples: [net_${s}_latent, 0]}}"; done; } | workflow strengths
run strengths --no-cache -v; verdict three_strengths_are_sampled $?
same another_strength_records_nothing_anew "$(grep -c 'counted: the control is recorded' "$work/strengths.txt")" 1
check other_strengths_other_latents sh -c "! cmp -s '$work/strengths/samples_00001_.f32' '$work/strengths/samples_00002_.f32'"

# ---- hints of other sizes and channels: nearest pixels, the middle of it
{
    echo '  big: {class_type: ImageScale, inputs: {image: [dots, 0], width: 320, height: 128, upscale_method: nearest-exact, crop: disabled}}'
    echo '  wide: {class_type: ImagePadForOutpaint, inputs: {image: [dots, 0], left: 40, top: 0, right: 40, bottom: 0, feathering: 0}}'
    echo '  mask: {class_type: SolidMask, inputs: {width: 160, height: 64, value: 0.25}}'
    echo '  alpha: {class_type: JoinImageWithAlpha, inputs: {image: [dots, 0], alpha: [mask, 0]}}'
    for hint in big wide alpha; do apply on_$hint "yes no" net $hint 0.8; both $hint; compare $hint net; done
} | workflow sizes
run sizes --no-cache; verdict other_sizes_are_sampled $?
same twice_the_size_an_edge_and_transparency_change_nothing "$(grep -c '^golden golden.net [0-9.]*e-0[6-9]' "$work/sizes.txt")" 3

# A smaller hint is the same as one that was brought to the picture's size by nearest pixels, and not as one that was blended.
small() { # [METHOD]: with the small hint, or with it brought to size before
    echo '  small: {class_type: ImageScale, inputs: {image: [dots, 0], width: 64, height: 24, upscale_method: area, crop: disabled}}'
    [ -z "$1" ] || echo "  scaled: {class_type: ImageScale, inputs: {image: [small, 0], width: 160, height: 64, upscale_method: $1, crop: center}}"
    apply on_net "yes no" net "$([ -z "$1" ] && echo small || echo scaled)" 0.8; both net step; dump net
}
by_control=$(small "" | latent_of small) nearest=$(small nearest-exact | latent_of nearest) blended=$(small bilinear | latent_of blended)
check scaled_hints_are_sampled [ -n "$by_control" ]
same a_small_hint_is_scaled_by_nearest_pixels "$by_control" "$nearest"
check not_blended [ "$by_control" != "$blended" ]

# An inpaint ControlNet wants -1 where the picture is to be drawn: black, normalised, over a part. What reaches the network is not black's.
hole() { # SOURCE
    echo '  black: {class_type: EmptyImage, inputs: {width: 80, height: 64, batch_size: 1, color: 0}}'
    echo '  below: {class_type: NormalizeImages, inputs: {images: [black, 0], mean: 0.5, std: 0.5}}'
    echo "  cut: {class_type: ImageCompositeMasked, inputs: {destination: [dots, 0], source: [$1, 0], x: 0, y: 0, resize_source: false}}"
    apply on_net "yes no" net cut 0.8; both net step; dump net
}
below=$(hole below | latent_of below) black=$(hole black | latent_of black)
check a_hint_below_0_is_sampled [ -n "$below" ]
check a_black_hint_is_sampled [ -n "$black" ]
check below_0_is_not_black [ "$below" != "$black" ]

# ---- bad use
refused() { # NAME WORDS; the workflow's own nodes on standard input
    workflow "$1"
    expect "$1" 1 "$2" "$kiln" run "$work/$1.yaml" --precision f32 --no-cache --plugins "$work/plugins" --models "$proof/models:$work/models" --input "$proof:$proof/input:$work" --out "$work/out"
}
{ apply on "yes no" other dots 1; echo '  other: {class_type: ControlNetLoader, inputs: {control_net_name: deep}}'; sample net "on, 0" "on, 1"; dump net; } |
    refused made_for_another_family "the control 'controlnet' adds at 'output.8.skip', a place that this model does not have; it was made for another family of models"
{ echo '  typed: {class_type: SetUnionControlNetType, inputs: {control_net: [net, 0], type: depth}}'; apply on "yes no" typed dots 1; sample net "on, 0" "on, 1"; dump net; } |
    refused a_type_for_one_that_is_no_union "this control is no Union"
{ apply on "yes no" other dots 1; echo "  other: {class_type: ControlNetLoader, inputs: {control_net_name: $proof/models/diffusion_models/tiny}}"; sample net "on, 0" "on, 1"; dump net; } |
    refused no_control_in_the_file "no loaded plugin knows a control network in it"
head -c 20000 "$proof/models/controlnet/tiny/diffusion_pytorch_model.safetensors" >"$work/models/controlnet/short.safetensors"
{ apply on "yes no" other dots 1; echo '  other: {class_type: ControlNetLoader, inputs: {control_net_name: short.safetensors}}'; sample net "on, 0" "on, 1"; dump net; } |
    refused a_truncated_file "short.safetensors"
grep -vE '^  (on|net_)' "$work/a_truncated_file.yaml" >"$work/unhinted.yaml"
cat >>"$work/unhinted.yaml" <<'END'
  on: {class_type: ControlNetApplyAdvanced, inputs: {positive: [yes, 0], negative: [no, 0], control_net: [net, 0]}}
  save: {class_type: TestDump, inputs: {samples: [drawn, 0]}}
  drawn: {class_type: KSampler, inputs: {model: [model, 0], positive: [on, 0], negative: [on, 1], latent_image: [x, 0], seed: 1, steps: 1, cfg: 1.0, sampler_name: euler, scheduler: normal}}
END
expect a_hint_is_wanted 2 "node 'on' (ControlNetApplyAdvanced): input 'image'" "$kiln" run "$work/unhinted.yaml" --plugins "$work/plugins" --models "$proof/models" --input "$proof" --out "$work/out"
exit $status
