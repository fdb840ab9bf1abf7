# test_style_nodes.sh - StyleModelLoader and StyleModelApply, ReferenceOnlySimple and unCLIPConditioning in workflows: held against torch and diffusers
# at 1e-5, and bad use. scripts/golden/style_adapter.py has the goldens; tests/unet/test_unet_derive.c what unCLIP makes of a picture.
. "$KILN_ROOT/tests/cli/head.sh"
. "$KILN_ROOT/tests/vision/vision_workflows.sh"
golden_plugin; verdict the_test_nodes_build $?
cp tests/golden/style_adapter/models/style_models/tiny.safetensors "$work/models/style_models/"
begin() {
    cat <<END
kiln: 1
nodes:
  sd1: {class_type: UNETLoader, inputs: {unet_name: $PWD/tests/golden/tiny-sd1-l2}}
  vision: {class_type: CLIPVisionLoader, inputs: {clip_name: tiny}}
  style: {class_type: StyleModelLoader, inputs: {style_model_name: tiny.safetensors}}
  small: {class_type: LoadImage, inputs: {image: small.png}}
  seen: {class_type: CLIPVisionEncode, inputs: {clip_vision: [vision, 0], image: [small, 0]}}
  yes: {class_type: TestConditioning, inputs: {file: ip_adapter.safetensors, name: sd1.positive}}
  no: {class_type: TestConditioning, inputs: {file: ip_adapter.safetensors, name: sd1.negative}}
  x1: {class_type: TestLatent, inputs: {file: ip_adapter.safetensors, name: sd1.x1}}
  x2: {class_type: TestLatent, inputs: {file: ip_adapter.safetensors, name: sd1.x2}}
  none: {class_type: DisableNoise}
  euler: {class_type: KSamplerSelect, inputs: {sampler_name: euler}}
  step: {class_type: ManualSigmas, inputs: {sigmas: "5.0, 0.0"}}
END
}
sample() { # NAME MODEL POSITIVE LATENT
    cat <<END
  ${1}_guider: {class_type: CFGGuider, inputs: {model: [$2, 0], positive: [$3, 0], negative: [no, 0], cfg: 3.0}}
  ${1}_latent: {class_type: SamplerCustomAdvanced, inputs: {noise: [none, 0], guider: [${1}_guider, 0], sampler: [euler, 0], sigmas: [step, 0], latent_image: [$4, 0]}}
END
}
golden() { echo "  ${1}_golden: {class_type: TestGolden, inputs: {value: [${1}_latent, 0], file: style_adapter.safetensors, name: golden.$2}}"; }
dump() { for name in "$@"; do echo "  dump_$name: {class_type: TestDump, inputs: {samples: [${name}_latent, 0]}}"; done; }

# ---- a style behind the prompt
{
    begin
    echo '  full: {class_type: StyleModelApply, inputs: {conditioning: [yes, 0], style_model: [style, 0], clip_vision_output: [seen, 0]}}'
    echo '  weak: {class_type: StyleModelApply, inputs: {conditioning: [yes, 0], style_model: [style, 0], clip_vision_output: [seen, 0], strength: 0.4, strength_type: multiply}}'
    sample full sd1 full x1; golden full style.1.0; sample weak sd1 weak x1; golden weak style.0.4
} >"$work/style.yaml"
run style --no-cache; verdict styles_are_sampled_with $?
same a_style_equals_torch "$(as_golden_times style style.1.0)$(as_golden_times style style.0.4)" 11
"$kiln" inspect "$work/models/style_models/tiny.safetensors" >"$work/log" 2>&1; check inspect_names_a_style grep -q "T2I-Adapter style, features of 16, 8 tokens of 32 (family style-adapter), complete" "$work/log"; check of_all_its_tensors sh -c "! grep -q 'left over' '$work/log'"

# ---- a reference: the second picture sees the first, which sees itself
{
    begin
    echo '  one: {class_type: TestLatent, inputs: {file: ip_adapter.safetensors, name: sd1.x1}}'
    echo '  look: {class_type: ReferenceOnlySimple, inputs: {model: [sd1, 0], reference: [one, 0], batch_size: 2}}'
    sample both look yes x2; golden both reference
    echo '  drawn_latent: {class_type: KSampler, inputs: {model: [look, 0], positive: [yes, 0], negative: [no, 0], latent_image: [look, 1], seed: 3, steps: 2, cfg: 3.0, sampler_name: euler, scheduler: normal}}'
    echo '  first_latent: {class_type: LatentFromBatch, inputs: {samples: [drawn_latent, 0], batch_index: 0, length: 1}}'
    echo '  kept_golden: {class_type: TestGolden, inputs: {value: [first_latent, 0], file: ip_adapter.safetensors, name: sd1.x1}}'
    dump drawn
} >"$work/reference.yaml"
run reference --no-cache; verdict a_reference_is_looked_at $?
same two_pictures_equal_diffusers "$(as_golden_times reference reference)" 1
same the_reference_is_kept "$(sed -n 's/^golden sd1.x1 //p' "$work/reference.txt" | awk '$1 != "nan" && $1 + 0 <= 1e-5' | wc -l)" 1
same three_pictures_of_the_size_of_one "$(stat -c %s "$work/reference/samples_00001_.f32")" $((3 * 16 * 24 * 4 * 4))

# ---- bad use
refused() { # NAME WORDS; further nodes on standard input
    { begin; cat; } >"$work/$1.yaml"
    expect "$1" 1 "$2" "$kiln" run "$work/$1.yaml" --precision f32 --no-cache --plugins "$work/plugins" --models "$proof/models:tests/golden/ip_adapter/models:$work/models" --input "$proof:$proof/input:$work:tests/golden" --out "$work/out"
}
python3 -I tests/vision/edit_vision.py zeros redux_down.weight 8,8 "$work/models/style_models/redux.safetensors"
{ echo '  redux: {class_type: StyleModelLoader, inputs: {style_model_name: redux.safetensors}}'; echo '  bad: {class_type: StyleModelApply, inputs: {conditioning: [yes, 0], style_model: [redux, 0], clip_vision_output: [seen, 0]}}'; sample bad sd1 bad x1; dump bad; } |
    refused redux "it is Redux, for Flux, whose denoiser is not there"
python3 -I tests/vision/edit_vision.py without "$work/models/style_models/tiny.safetensors" transformer_layes.1.mlp.c_fc.bias "$work/models/style_models/short.safetensors"
{ echo '  short: {class_type: StyleModelLoader, inputs: {style_model_name: short.safetensors}}'; echo '  bad: {class_type: StyleModelApply, inputs: {conditioning: [yes, 0], style_model: [short, 0], clip_vision_output: [seen, 0]}}'; sample bad sd1 bad x1; dump bad; } |
    refused a_tensor_is_missing "no tensor 'layers.1.mlp.c_fc.bias'"
{ echo '  xl_yes: {class_type: TestConditioning, inputs: {file: ip_adapter.safetensors, name: xl.positive}}'; echo '  bad: {class_type: StyleModelApply, inputs: {conditioning: [xl_yes, 0], style_model: [style, 0], clip_vision_output: [seen, 0]}}'; sample bad sd1 bad x1; dump bad; } |
    refused another_prompt "this style adapter's tokens are 32 wide, and the prompt's are 24; it was made for another family of models"
{ echo '  bad: {class_type: ReferenceOnlySimple, inputs: {model: [sd1, 0], reference: [x2, 0]}}'; echo '  bad_latent: {class_type: KSampler, inputs: {model: [bad, 0], positive: [yes, 0], negative: [no, 0], latent_image: [bad, 1], steps: 1}}'; dump bad; } |
    refused two_references "the reference has to be one picture, and it is 2; LatentFromBatch takes one of them"
exit $status
