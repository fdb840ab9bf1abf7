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
exit $status
