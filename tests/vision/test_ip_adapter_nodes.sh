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
exit $status
