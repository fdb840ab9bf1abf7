# test_ip_adapter.sh - a stranger brings a vision encoder, IP-Adapter and small hooks (ip_adapter/): built against an installed kiln and nothing else, on
# kiln's own UNet of SD1, and held against transformers and diffusers: f32, 1e-5 of the largest value.
here="$KILN_ROOT/tests/strangers/ip_adapter"
models="$here/models:$KILN_ROOT/tests/strangers/control/models:$KILN_ROOT/tests/golden"
. "$KILN_ROOT/tests/strangers/goldens/goldens.sh"
build ip_adapter.so "$here"/*.c && build goldens.so "$KILN_ROOT/tests/strangers/goldens/golden_nodes.c"; verdict builds_against_the_installed_headers $?
[ -z "$(readelf -d "$work/plugins/ip_adapter.so" | grep NEEDED | grep -vE 'libc\.|libm\.|libjansson\.')" ]; verdict links_nothing_of_kilns $?

# ---- workflows
begin() {
    cat <<END
kiln: 1
params:
  scale: {default: 0.7, help: of the IP-Adapter}
nodes:
  model: {class_type: UNETLoader, inputs: {unet_name: tiny}}
  vision: {class_type: ExampleCLIPVisionLoader, inputs: {clip_name: tiny}}
  small_image: {class_type: LoadImage, inputs: {image: small.png}}
  wide_image: {class_type: LoadImage, inputs: {image: wide.png}}
  small: {class_type: ExampleCLIPVisionEncode, inputs: {clip_vision: [vision, 0], image: [small_image, 0]}}
  wide: {class_type: ExampleCLIPVisionEncode, inputs: {clip_vision: [vision, 0], image: [wide_image, 0]}}
  yes: {class_type: TestConditioning, inputs: {file: goldens.safetensors, name: positive}}
  no: {class_type: TestConditioning, inputs: {file: goldens.safetensors, name: negative}}
  x: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: x}}
  x2: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: x2}}
  none: {class_type: DisableNoise}
  euler: {class_type: KSamplerSelect, inputs: {sampler_name: euler}}
  steps: {class_type: ManualSigmas, inputs: {sigmas: "12.0, 2.0, 1.0, 0.3, 0.0"}}
  step: {class_type: ManualSigmas, inputs: {sigmas: "5.0, 0.0"}}
END
}
adapt() { # NAME MODEL FILE ENCODED SCALE [START END [PLACES]]
    echo "  $1: {class_type: ExampleIPAdapter, inputs: {model: [$2, 0], clip_vision_output: [$4, 0], ipadapter_file: $3.safetensors, scale: $5, start_percent: ${6:-0}, end_percent: ${7:-1}, places: \"${8:-*.*.attn2.out}\"}}"
}
sample() { # NAME MODEL [LEVELS [LATENT]]
    cat <<END
  ${1}_guider: {class_type: CFGGuider, inputs: {model: [$2, 0], positive: [yes, 0], negative: [no, 0], cfg: 3.0}}
  ${1}_latent: {class_type: SamplerCustomAdvanced, inputs: {noise: [none, 0], guider: [${1}_guider, 0], sampler: [euler, 0], sigmas: [${3:-steps}, 0], latent_image: [${4:-x}, 0]}}
END
}
golden() { echo "  ${1}_golden: {class_type: TestGolden, inputs: {value: [${2:-${1}_latent}, 0], file: goldens.safetensors, name: golden.$1}}"; } # NAME [VALUE]
dump() { for name in "$@"; do echo "  dump_$name: {class_type: TestDump, inputs: {samples: [${name}_latent, 0]}}"; done; }
cases="plain adapter_step adapter other_scale two_adapters one_file_twice range pair attention_is_v further_keys left_out stronger_backbone"
all_cases() {
    golden small small; golden wide wide
    sample plain model
    adapt fox_small model fox small 0.7; adapt fox_weak model fox small 0.2; adapt fox_range model fox small 0.7 0.2 0.7
    sample adapter_step fox_small step; sample adapter fox_small; sample other_scale fox_weak; sample range fox_range
    adapt both fox_small owl wide 0.4; sample two_adapters both
    adapt twice fox_small fox wide 0.4; sample one_file_twice twice
    # Two pictures: their embeddings one below the other.
    echo '  two: {class_type: TestBothEmbeds, inputs: {first: [small, 0], second: [wide, 0]}}'
    adapt fox_pair model fox two 0.7; sample pair fox_pair steps x2
    echo '  v_model: {class_type: ExampleAttentionIsV, inputs: {model: [model, 0]}}'; sample attention_is_v v_model
    echo '  keys: {class_type: TestTensor, inputs: {file: goldens.safetensors, name: keys}}'
    echo '  values: {class_type: TestTensor, inputs: {file: goldens.safetensors, name: values}}'
    echo '  keys_model: {class_type: ExampleFurtherKeys, inputs: {model: [model, 0], keys: [keys, 0], values: [values, 0]}}'; sample further_keys keys_model
    echo '  out_model: {class_type: ExampleLeaveOut, inputs: {model: [model, 0]}}'; sample left_out out_model
    echo '  backbone_model: {class_type: ExampleStrongerBackbone, inputs: {model: [model, 0]}}'; sample stronger_backbone backbone_model
    for name in $cases; do golden "$name"; done
}
{ begin; all_cases; } >"$work/all.yaml"

# ---- against transformers and diffusers
run all "$work/all.yaml" --no-cache; verdict everything_is_sampled $?
for name in small wide $cases; do as_golden "$name" all; done

# ---- what is recorded and computed
attentions() { grep -c '"name": "attention".*"denoiser/' "$work/$1.trace"; }
recorded() { grep -c 'IP-Adapter: recorded' "$work/$1.txt"; }
{ begin; adapt a model fox small '"${scale}"'; sample a a; dump a; } >"$work/one.yaml"
{ begin; sample a model; dump a; } >"$work/none.yaml"
{ begin; adapt a model fox small 0.7 0.2 0.7; sample a a; dump a; } >"$work/range.yaml"
for name in none one range; do run $name "$work/$name.yaml" --no-cache --trace "$work/$name.trace"; done
each=$(($(attentions none) / 4)) # of a step without it: as many self- as cross-attentions
[ "$(($(attentions one) - $(attentions none)))" -eq $((4 * each / 2)) ]; verdict one_attention_more_for_each_cross_attention $?
[ "$(($(attentions range) - $(attentions none)))" -eq $((2 * each / 2)) ]; verdict outside_its_range_it_is_not_computed $?
{ begin; for s in 0.7 0.2; do for picture in small wide; do adapt "m_${s}_$picture" model fox $picture $s; sample "l_${s}_$picture" "m_${s}_$picture"; dump "l_${s}_$picture"; done; done; } >"$work/four.yaml"
run four "$work/four.yaml" --no-cache -v && [ "$(recorded four)" -eq 1 ] && [ "$(cksum "$work"/four/*.f32 | cut -d ' ' -f 1 | sort -u | wc -l)" -eq 4 ]
verdict another_picture_or_scale_records_nothing_anew $?
# A hook's places are no part of its identity, and yet of what is recorded.
{ begin; adapt all model fox small 0.7; adapt some model fox small 0.7 0 1 'output.*.attn2.out'; sample all all; sample some some; dump some; golden adapter all_latent; } >"$work/places.yaml"
{ begin; adapt some model fox small 0.7 0 1 'output.*.attn2.out'; sample some some; dump some; } >"$work/some.yaml"
run places "$work/places.yaml" --no-cache && run some "$work/some.yaml" --no-cache && cmp "$work/places/samples_00001_.f32" "$work/some/samples_00001_.f32" && ! cmp -s "$work/some/samples_00001_.f32" "$work/one/samples_00001_.f32"
verdict other_places_are_another_program $?

# ---- beside a control and a LoRA, on one model
build control.so "$KILN_ROOT"/tests/strangers/control/*.c; verdict a_second_stranger_builds $?
together() {
    begin
    echo '  net: {class_type: ExampleControlNetLoader, inputs: {control_net_name: tiny}}'
    echo '  hint: {class_type: ExampleControlNetApply, inputs: {positive: [yes, 0], negative: [no, 0], control_net: [net, 0], image: [wide_image, 0], strength: 0.8}}'
    echo '  lora: {class_type: LoraLoaderModelOnly, inputs: {model: [model, 0], lora_name: tiny.safetensors, strength_model: 0.5}}'
    adapt over lora fox small 0.7; adapt under model fox small 0.7
    echo '  lora_over: {class_type: LoraLoaderModelOnly, inputs: {model: [under, 0], lora_name: tiny.safetensors, strength_model: 0.5}}'
    for name in over lora_over; do sample $name $name; done | sed 's/positive: \[yes, 0\], negative: \[no, 0\]/positive: [hint, 0], negative: [hint, 1]/'
    dump over lora_over; golden together over_latent
}
together >"$work/together.yaml"
run together "$work/together.yaml" --no-cache && cmp "$work/together/samples_00001_.f32" "$work/together/samples_00002_.f32"; verdict a_lora_under_the_hook_is_one_over_it $?
as_golden together together

# ---- looked at without running, and taken up again after a kill
run dry "$work/one.yaml" --no-cache --dry-run && ! [ -e "$work/dry/samples_00001_.f32" ]; verdict a_dry_run_runs_nothing $?
run explained "$work/one.yaml" --no-cache --explain && grep -qE '^small +ExampleCLIPVisionEncode .*[0-9]$' "$work/explained.txt" && grep -qE '^a +ExampleIPAdapter .*[0-9]$' "$work/explained.txt"; verdict explain_counts_the_vision_encoder $?
long() {
    begin; adapt a model fox small 0.7 0.1 0.9
    echo '  empty: {class_type: EmptyLatentImage, inputs: {width: 256, height: 256, batch_size: 1}}'
    echo '  long_latent: {class_type: KSampler, inputs: {model: [a, 0], positive: [yes, 0], negative: [no, 0], latent_image: [empty, 0], seed: 7, steps: 60, cfg: 3.0, sampler_name: euler_ancestral, scheduler: normal}}'
    dump long
}
long >"$work/long.yaml"
resumes_after_a_kill "$work/long.yaml"; verdict resumes_after_a_kill $?

# ---- bad use: a sentence that names node, input and remedy, and an exit status
exit $status
