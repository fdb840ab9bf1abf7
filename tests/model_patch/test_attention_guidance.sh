# test_attention_guidance.sh - SAG, SEG and Epsilon Scaling as their users meet them: each number draws another picture, in one process too; what
# changes nothing gives the same bytes and costs nothing; batches and parts of pictures; what cannot be had is said; a type with a blank.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"

# workflow NODE "INPUTS" [CFG [NEGATIVE [LATENT]]]
workflow() {
    cat <<END
kiln: 1
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
  patched: {class_type: $1, inputs: {model: [model, MODEL]$2}}
  positive: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a red circle}}
  plain: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: blue}}
  area: {class_type: ConditioningSetArea, inputs: {conditioning: [plain, 0], width: 64, height: 128, x: 0, y: 0, strength: 1.0}}
  several: {class_type: ConditioningCombine, inputs: {conditioning_1: [area, 0], conditioning_2: [plain, 0]}}
  one: {class_type: EmptyLatentImage, inputs: {width: 128, height: 128, batch_size: 1}}
  two: {class_type: EmptyLatentImage, inputs: {width: 128, height: 128, batch_size: 2}}
  second: {class_type: LatentFromBatch, inputs: {samples: [two, 0], batch_index: 1, length: 1}}
  sampler:
    class_type: KSampler
    inputs: {model: ${drawn_by:-[patched, MODEL]}, positive: [positive, 0], negative: [${4:-plain}, 0], latent_image: [${5:-one}, 0], seed: 3, steps: 3, cfg: ${3:-2.0}, sampler_name: euler, scheduler: normal}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: p}}
END
}
draw() { local out=$1; shift; rm -rf "${work:?}/$out"; "$kiln" run --models tests/golden --no-cache --precision f32 --out "$work/$out" "$@" >"$work/stdout" 2>"$work/log"; }
picture() { find "$work/$1" -name '*.png' | sort | sed -n "${2:-1}p"; }
alike() { if [ -s "$2" ]; then same "$1" "$(pixels "$2")" "$(pixels "$3")"; else bad "$1" "no picture: $(tail -n 2 "$work/log")"; fi; }
unlike() { if [ -s "$2" ] && [ -s "$3" ] && [ "$(pixels "$2")" != "$(pixels "$3")" ]; then ok "$1"; else bad "$1" "the same picture, or none: $(tail -n 2 "$work/log")"; fi; }
sag=SelfAttentionGuidance seg=SmoothedEnergyGuidanceAdvanced eps="Epsilon Scaling"

drawn_by="[model, MODEL]" workflow FreeU "" >"$work/plain.yaml"
draw plain "$work/plain.yaml"
plain=$(picture plain)

# counts NAME NODE PARAMETER DEFAULT OTHER [FURTHER INPUTS]: the default and another value in one process, and the other alone
counts() {
    workflow "$2" "${6:+, $6}, $3: $4" >"$work/one.yaml"
    draw both "$work/one.yaml" --over "patched.$3=$4,$5"
    draw alone "$work/one.yaml" --set "patched.$3=$5"
    unlike "$1_$3_counts" "$(picture both 1)" "$(picture both 2)"
    case "$(pixels "$(picture alone)")" in "") bad "$1_$3_alone" "no picture: $(tail -n 2 "$work/log")" ;;
        "$(pixels "$(picture both 1)")" | "$(pixels "$(picture both 2)")") ok "$1_$3_alone" ;; *) bad "$1_$3_alone" "another picture" ;; esac
    unlike "$1_$3_is_not_without" "$(picture alone)" "$plain"
}
counts sag $sag scale 0.5 3.0
counts sag $sag blur_sigma 2.0 0.5 "scale: 4.0"
counts seg $seg scale 3.0 40.0
counts seg $seg blur_sigma -1.0 0.6 "scale: 40.0"
counts seg $seg unet_block_id 1 3 "scale: 40.0, unet_block: input"
counts seg $seg sigma_end -1.0 5.0 "scale: 40.0"
counts seg $seg rescale 0.0 0.7 "scale: 40.0"
counts seg $seg rescale_mode partial snf "scale: 40.0, rescale: 0.7"
counts seg $seg unet_block_list m0 d1 "scale: 40.0"
counts epsilon "$eps" scaling_factor 1.005 0.9

# neutral NAME NODE "INPUTS": the same bytes as without, and no more evaluations
evaluations() { "$kiln" run "$1" --models tests/golden --explain 2>/dev/null | sed -n 's/^.* \([0-9.]*\) GFLOP.*$/\1/p' | head -n 1; }
neutral() {
    workflow "$2" "$3" >"$work/one.yaml"
    draw one "$work/one.yaml"
    alike "$1_changes_nothing" "$(picture one)" "$plain"
}
neutral sag_of_0 $sag ", scale: 0.0"
neutral sag_without_blur $sag ", blur_sigma: 0.0"
neutral seg_of_0 $seg ", scale: 0.0"
neutral seg_without_blur $seg ", blur_sigma: 0.0"
neutral seg_below_its_range $seg ", sigma_start: 0.001"
neutral epsilon_of_1 "$eps" ", scaling_factor: 1.0"

# a list of the one block that unet_block names; it comes before unet_block
workflow $seg ", scale: 40.0" >"$work/one.yaml"
workflow $seg ", scale: 40.0, unet_block_list: m0, unet_block: input, unet_block_id: 1" >"$work/other.yaml"
draw one "$work/one.yaml"; draw other "$work/other.yaml"
alike seg_of_a_list_of_one "$(picture other)" "$(picture one)"

# what is evaluated: one guess more a step (a trace has a denoiser's run for each)
runs() { draw traced "$1" --trace "$work/trace"; grep -c '"name": "timestep_embedding"' "$work/trace"; }
base=$(runs "$work/plain.yaml")
workflow $sag "" >"$work/one.yaml"
same sag_costs_one_evaluation_a_step "$(runs "$work/one.yaml")" $((base + 3))
workflow $seg "" >"$work/one.yaml"
same seg_costs_one_evaluation_a_step "$(runs "$work/one.yaml")" $((base + 3))

# each picture of a batch has a map of its own; at cfg 1 the negative is evaluated all the same
workflow $sag ", scale: 4.0" 2.0 plain two >"$work/two.yaml"
workflow $sag ", scale: 4.0" 2.0 plain second >"$work/second.yaml"
draw two "$work/two.yaml"; draw second "$work/second.yaml"
alike sag_of_a_batch "$(picture second)" "$(picture two 2)"
workflow $sag ", scale: 4.0" 1.0 >"$work/one.yaml"
drawn_by="[model, MODEL]" workflow $sag "" 1.0 >"$work/other.yaml"
draw one "$work/one.yaml"; draw other "$work/other.yaml"
unlike sag_at_cfg_1 "$(picture one)" "$(picture other)"

# ---- what cannot be had
refused() { # NAME STATUS WORDS NODE "INPUTS" [CFG [NEGATIVE]]
    workflow "$4" "$5" "${6:-2.0}" "${7:-plain}" >"$work/one.yaml"
    expect "$1" "$2" "$3" "$kiln" run "$work/one.yaml" --models tests/golden --no-cache --out "$work/no"
}
refused sag_of_several 1 "SelfAttentionGuidance looks at how the model makes its negative guess, and that one is made of several" $sag "" 2.0 several
refused seg_of_no_list 1 "unet_block_list 'd0.7': the block has fewer transformers" $seg ", unet_block_list: d0.7"
refused seg_of_no_block 1 "acts at 'input.99.*.attn1', a place that this model does not have" $seg ", unet_block: input, unet_block_id: 99"
refused seg_of_a_second_middle 2 "the middle has block 0 alone" $seg ", unet_block_id: 1"

# ---- a type with a blank, wherever types are said
expect_in="stdout"
expect a_type_with_a_blank 0 "Epsilon Scaling" "$kiln" nodes "Epsilon Scaling"
"$kiln" nodes --json | python3 -c 'import json, sys; sys.exit("Epsilon Scaling" not in [n["type"] for n in json.load(sys.stdin)])'; verdict in_json $?
workflow "$eps" "" >"$work/one.yaml"
draw one "$work/one.yaml"
draw again "$(picture one)"
alike out_of_a_picture "$(picture again)" "$(picture one)"
"$kiln" run "$work/one.yaml" --models tests/golden --cache "$work/results" --out "$work/c1" >/dev/null 2>&1
"$kiln" run "$work/one.yaml" --models tests/golden --cache "$work/results" --out "$work/c2" >"$work/stdout" 2>"$work/log"
check kept_results_are_found grep -q "from the cache" "$work/log"
expect_in="log"
workflow "Epsilon  Scaling" "" >"$work/one.yaml"
expect two_blanks_are_another 2 "Epsilon Scaling" "$kiln" check "$work/one.yaml" --models tests/golden
exit $status
