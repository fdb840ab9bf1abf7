# test_ip_adapter_nodes.sh - IPAdapterModelLoader, IPAdapter and IPAdapterAdvanced over tiny UNets of SD1's and SDXL's layers, held against diffusers at
# 1e-5; what is computed and recorded when, and what is said of bad use. scripts/golden/ip_adapter.py has the cases.
. "$KILN_ROOT/tests/cli/head.sh"
. "$KILN_ROOT/tests/vision/vision_workflows.sh"
golden_plugin && test_plugin tests/vision/plugin/pooled_node.c pooled; verdict the_test_nodes_build $?
begin() { # BASE...: of each base its model, adapters, conditionings and latents
    cat <<END
kiln: 1
params:
  weight: {default: 0.8, help: of the adapter}
nodes:
  vision: {class_type: CLIPVisionLoader, inputs: {clip_name: tiny}}
  small: {class_type: LoadImage, inputs: {image: small.png}}
  wide: {class_type: LoadImage, inputs: {image: wide.png}}
  mask: {class_type: TestMask, inputs: {file: ip_adapter.safetensors, name: mask}}
  masks: {class_type: TestMask, inputs: {file: ip_adapter.safetensors, name: masks}}
  none: {class_type: DisableNoise}
  euler: {class_type: KSamplerSelect, inputs: {sampler_name: euler}}
  way: {class_type: ManualSigmas, inputs: {sigmas: "12.0, 2.0, 1.0, 0.3, 0.0"}}
  step: {class_type: ManualSigmas, inputs: {sigmas: "5.0, 0.0"}}
END
    local base kind side
    for base; do
        echo "  $base: {class_type: UNETLoader, inputs: {unet_name: $([ "$base" = xl ] && echo tiny-xl || echo "$PWD/tests/golden/tiny-sd1-l2")}}"
        for kind in "" _plus _full; do echo "  a_$base$kind: {class_type: IPAdapterModelLoader, inputs: {ipadapter_file: $base$kind.safetensors}}"; done
        for side in positive negative; do
            echo "  ${base}_${side}_text: {class_type: TestConditioning, inputs: {file: ip_adapter.safetensors, name: $base.$side}}"
            echo "  ${base}_$side: {class_type: TestPooled, inputs: {conditioning: [${base}_${side}_text, 0], file: ip_adapter.safetensors, name: $base.$side.pooled}}"
        done
        for n in 1 2; do echo "  ${base}_x$n: {class_type: TestLatent, inputs: {file: ip_adapter.safetensors, name: $base.x$n}}"; done
    done
}
adapt() { # NAME MODEL ADAPTER IMAGE WEIGHT [FURTHER]: by the node that takes all
    echo "  $1: {class_type: IPAdapterAdvanced, inputs: {model: [$2, 0], ipadapter: [a_$3, 0], image: [$4, 0], clip_vision: [vision, 0], weight: $5${6:+, $6}}}"
}
sample() { # NAME BASE MODEL [LEVELS [PICTURES]]
    cat <<END
  ${1}_guider: {class_type: CFGGuider, inputs: {model: [$3, 0], positive: [$2_positive, 0], negative: [$2_negative, 0], cfg: 3.0}}
  ${1}_latent: {class_type: SamplerCustomAdvanced, inputs: {noise: [none, 0], guider: [${1}_guider, 0], sampler: [euler, 0], sigmas: [${4:-step}, 0], latent_image: [$2_x${5:-1}, 0]}}
END
}
held() { sample "$1" "$2" "m_$1" "${3:-step}" "${4:-1}"; echo "  ${1}_golden: {class_type: TestGolden, inputs: {value: [${1}_latent, 0], file: ip_adapter.safetensors, name: golden.$1}}"; } # NAME BASE [LEVELS [PICTURES]]
dump() { for name in "$@"; do echo "  dump_$name: {class_type: TestDump, inputs: {samples: [${name}_latent, 0]}}"; done; }
draw() { run "$@"; }
word() { echo "$1" | tr ' -' '__'; }

# ---- against diffusers
types="ease in:ease out:ease in-out:reverse in-out:weak input:weak output:weak middle:strong middle:style transfer:composition:strong style transfer:style and composition:style transfer precise:composition precise"
cases=()
one() { # CASE BASE ADAPTER IMAGE WEIGHT FURTHER [LEVELS [PICTURES]]
    adapt "m_$1" "$2" "$3" "$4" "$5" "$6" && held "$1" "$2" "$7" "$8"
}
{
    begin sd1 xl
    echo '  inverted: {class_type: ImageInvert, inputs: {image: [small, 0]}}'
    echo '  several: {class_type: ImageBatch, inputs: {image1: [small, 0], image2: [inverted, 0]}}'
    for b in sd1 xl; do
        for kind in "" _plus _full; do one $b${kind}_step $b $b$kind wide 0.8; done
        one ${b}_way $b $b small 0.8 "" way; one ${b}_weaker $b $b small 0.3 "" way
        adapt first_$b $b $b small 0.8; adapt m_${b}_stacked first_$b ${b}_plus wide 0.5; held ${b}_stacked $b way
        one ${b}_range $b $b small 0.8 "start_at: 0.2, end_at: 0.7" way
        one ${b}_pair $b $b small 0.8 "" step 2
        one ${b}_mask $b $b small 0.8 "attn_mask: [mask, 0]"
        one ${b}_masks $b $b small 0.8 "attn_mask: [masks, 0]" step 2
        one ${b}_negative $b $b small 0.8 "image_negative: [wide, 0]"
        one ${b}_plus_negative $b ${b}_plus small 0.8 "image_negative: [wide, 0]"
        one ${b}_concat $b $b several 0.8; one ${b}_plus_concat $b ${b}_plus several 0.8
        IFS=:; for type in $types; do unset IFS; one ${b}_"$(word "$type")" $b $b small 0.8 "weight_type: $type"; IFS=:; done; unset IFS
    done
    for how in add subtract average "norm average"; do
        one sd1_"$(word "$how")" sd1 sd1 several 0.8 "combine_embeds: $how"; one sd1_plus_"$(word "$how")" sd1 sd1_plus several 0.8 "combine_embeds: $how"
    done
    one sd1_kv sd1 sd1 several 1.5 "embeds_scaling: K+V"; one sd1_kv_c sd1 sd1 several 1.5 "embeds_scaling: K+V w/ C penalty"; one sd1_mean sd1 sd1 several 1.5 "embeds_scaling: K+mean(V) w/ C penalty"
} >"$work/all.yaml"
draw all --no-cache; verdict everything_is_sampled $?
golden_cases() { sed -nE 's/^  ([a-z0-9_]+)_golden: .*/\1/p' "$work/$1.yaml"; }
for name in $(golden_cases all); do
    error=$(sed -n "s/^golden golden\.$name //p" "$work/all.txt"); echo "# $name ${error:-not compared}"
    awk -v e="${error:-none}" 'BEGIN { exit !(e != "none" && e != "nan" && e + 0 <= 1e-5) }'; verdict "${name}_as_diffusers" $?
done

# ---- the node of few options is the other one
{
    begin sd1
    simple() { echo "  m_$1: {class_type: IPAdapter, inputs: {model: [sd1, 0], ipadapter: [a_sd1, 0], image: [small, 0], clip_vision: [vision, 0], weight: 0.8, weight_type: $2}}"; sample "$1" sd1 "m_$1"; echo "  ${1}_golden: {class_type: TestGolden, inputs: {value: [${1}_latent, 0], file: ip_adapter.safetensors, name: golden.$3}}"; }
    simple standard standard sd1_mask; simple prompt "prompt is more important" sd1_ease_out; simple style "style transfer" sd1_style_transfer
} | sed 's/clip_vision: \[vision, 0\], weight: 0.8, weight_type: standard/clip_vision: [vision, 0], weight: 0.8, attn_mask: [mask, 0]/' >"$work/simple.yaml"
run simple --no-cache; verdict the_simple_node_is_sampled_with $?
same it_is_the_other_one "$(as_golden_times simple sd1_mask)$(as_golden_times simple sd1_ease_out)$(as_golden_times simple sd1_style_transfer)" 111

# ---- what is computed
attentions() { grep -c '"name": "attention".*"denoiser/' "$work/$1.trace"; }
latent_bytes() { cksum <"$work/$1/samples_00001_.f32"; }
drawn() { # NAME WEIGHT [FURTHER]: four steps with an adapter of SD1
    { begin sd1; adapt m_a sd1 sd1 small "$2" "$3"; sample a sd1 m_a way; dump a; } >"$work/$1.yaml"
    run "$1" --no-cache --trace "$work/$1.trace"
}
{ begin sd1; sample a sd1 sd1 way; dump a; } >"$work/plain.yaml"; run plain --no-cache --trace "$work/plain.trace"; verdict plain_is_sampled $?
drawn full 0.8 && drawn ranged 0.8 "start_at: 0.2, end_at: 0.7" && drawn nought 0 && drawn late 0.8 "start_at: 0.9, end_at: 0.3" && drawn ended 0.8 "end_at: 0.0" && drawn style 0.8 "weight_type: composition"; verdict adapters_are_sampled_with $?
steps=4 each=$(($(attentions plain) / 4)) # of a step without it: as many self- as cross-attentions
same one_attention_more_for_each_cross_attention "$(($(attentions full) - $(attentions plain)))" $((steps * each / 2))
same outside_its_range_it_is_not_computed "$(($(attentions ranged) - $(attentions plain)))" $((2 * each / 2))
same layers_without_a_weight_are_not_computed "$(($(attentions style) - $(attentions plain)))" $((steps * 2 * each / 2 / 16))
for name in nought late ended; do same "${name}_is_none" "$(latent_bytes $name)" "$(latent_bytes plain)"; same "${name}_computes_nothing" "$(attentions $name)" "$(attentions plain)"; done
check with_a_weight_it_is_seen [ "$(latent_bytes full)" != "$(latent_bytes plain)" ]
{
    begin sd1
    for w in 0.8 0.3 1.5; do adapt "m_$w" sd1 sd1 small $w; done; adapt m_wide sd1 sd1 wide 0.8; adapt m_ease sd1 sd1 small 0.8 "weight_type: ease in"
    for m in 0.8 0.3 1.5 wide ease; do echo "  c_$m: {class_type: TestRecorded, inputs: {model: [m_$m, 0]}}"; sample "s_$m" sd1 "c_$m"; dump "s_$m"; done
} >"$work/weights.yaml"
run weights --no-cache -v; verdict five_are_sampled $?
same another_weight_type_or_picture_records_nothing_anew "$(grep -c 'counted: the model is recorded' "$work/weights.txt")" 1
same and_yet_they_are_others "$(cksum "$work"/weights/*.f32 | cut -d ' ' -f 1 | sort -u | wc -l)" 5
run full --no-cache --explain && grep -qE '^m_a +IPAdapterAdvanced .*[0-9]$' "$work/full.txt"; verdict explain_counts_it $?

# ---- files
expect inspect_names_an_adapter 0 "IP-Adapter, features of 12, 4 tokens (family ip-adapter), complete" "$kiln" inspect tests/golden/ip_adapter/models/ipadapter/sd1.safetensors
"$kiln" inspect tests/golden/ip_adapter/models/ipadapter/xl_plus.safetensors >"$work/log" 2>&1; check of_all_its_tensors sh -c "grep -q complete '$work/log' && ! grep -q 'left over' '$work/log'"
python3 -I tests/vision/edit_vision.py rename tests/golden/ip_adapter/models/ipadapter/sd1.safetensors ip_adapter. adapter_modules. "$work/models/ipadapter/modules.safetensors" &&
    { begin sd1; echo '  a_modules: {class_type: IPAdapterModelLoader, inputs: {ipadapter_file: modules.safetensors}}'; adapt m_sd1_way sd1 modules small 0.8; held sd1_way sd1 way; } >"$work/modules.yaml" && run modules --no-cache
same other_names_of_the_attentions "$(as_golden_times modules sd1_way)" 1

# ---- bad use
refused() { # NAME WORDS; further nodes on standard input
    { begin sd1 xl; cat; sample drawn "${3:-sd1}" m_a; dump drawn; } >"$work/$1.yaml"
    expect "$1" 1 "$2" "$kiln" run "$work/$1.yaml" --precision f32 --no-cache --plugins "$work/plugins" --models "$proof/models:tests/golden/ip_adapter/models:$work/models" --input "$proof:$proof/input:$work:tests/golden" --out "$work/out"
}
adapt m_a sd1 xl small 0.8 | refused an_adapter_of_sdxl_on_sd1 "this IP-Adapter is for a model with 17 cross-attentions, and this one has 16; take the one that was made for this family of models"
python3 -I tests/vision/edit_vision.py widen tests/golden/ip_adapter/models/ipadapter/sd1.safetensors 40 "$work/models/ipadapter/wider.safetensors"
{ echo '  a_wider: {class_type: IPAdapterModelLoader, inputs: {ipadapter_file: wider.safetensors}}'; adapt m_a sd1 wider small 0.8; } | refused an_adapter_of_another_text "this IP-Adapter is for a model whose text is 40 wide, and this one's is 32"
{ echo "  control_unet: {class_type: UNETLoader, inputs: {unet_name: $PWD/tests/strangers/control/models/diffusion_models/tiny}}"; echo '  a_fox: {class_type: IPAdapterModelLoader, inputs: {ipadapter_file: fox.safetensors}}'; adapt m_a control_unet fox small 0.8 "weight_type: style transfer"; } | refused a_weight_type_of_other_layers "this weight_type is about the 16 layers of SD1 or the 11 of SDXL, and this model has 6"
mkdir -p "$work/models/clip_vision/wide" && cp "$proof/models/clip_vision/tiny/config.json" "$work/models/clip_vision/wide/" &&
    python3 -I tests/vision/edit_vision.py without "$proof/models/clip_vision/tiny/model.safetensors" visual_projection.weight "$work/models/clip_vision/wide/model.safetensors"
{ echo '  other: {class_type: CLIPVisionLoader, inputs: {clip_name: wide}}'; adapt m_a sd1 sd1 small 0.8 | sed 's/\[vision, 0\]/[other, 0]/'; } | refused another_vision_encoder "this IP-Adapter is shown image_embeds that are 12 wide, and those of this vision encoder are 16; take the encoder that it was made for"
printf 'PK' >"$work/models/ipadapter/ip-adapter_sd15.bin"
{ echo '  a_pickle: {class_type: IPAdapterModelLoader, inputs: {ipadapter_file: ip-adapter_sd15.bin}}'; adapt m_a sd1 pickle small 0.8; } | refused a_pickle "a pickle, which can run any code when it is read, so kiln never opens one; take the .safetensors"
{ echo '  a_unet: {class_type: IPAdapterModelLoader, inputs: {ipadapter_file: '"$PWD"'/tests/golden/tiny-sd1-l2/unet/diffusion_pytorch_model.safetensors}}'; adapt m_a sd1 unet small 0.8; } | refused no_adapter_in_the_file "no loaded plugin knows ip_adapter in it"
python3 -I tests/vision/edit_vision.py without tests/golden/ip_adapter/models/ipadapter/sd1.safetensors ip_adapter.5.to_v_ip.weight "$work/models/ipadapter/half.safetensors"
{ echo '  a_half: {class_type: IPAdapterModelLoader, inputs: {ipadapter_file: half.safetensors}}'; adapt m_a sd1 half small 0.8; } | refused half_a_pair "no tensor 'ip_adapter.5.to_v_ip.weight'"
exit $status
