# test_model_patch.sh - model patches as their users meet them: each parameter draws another picture, in one process too (programs are
# kept by all that decides what is recorded); what changes nothing gives the same bytes; a range outside which nothing is computed; what
# cannot be had is said; estimates count what is drawn.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"

# workflow NODE "INPUTS" [SIZE] [CFG] [SECOND LINE OF NODES]: a picture drawn by the model that the node makes
workflow() {
    cat <<END
kiln: 1
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
  lora: {class_type: LoraLoader, inputs: {model: [model, MODEL], clip: [model, CLIP], lora_name: lora/kohya.safetensors, strength_model: 2.0, strength_clip: 2.0}}
  patched: {class_type: $1, inputs: {$2}}
  positive: {class_type: CLIPTextEncode, inputs: {clip: ${clip:-[model, CLIP]}, text: a red circle}}
  negative: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: blue}}
  empty: {class_type: EmptyLatentImage, inputs: {width: ${3:-64}, height: 64, batch_size: 1}}
  sampler:
    class_type: KSampler
    inputs: {model: ${drawn_by:-[patched, MODEL]}, positive: [positive, 0], negative: [negative, 0], latent_image: [empty, 0], seed: 3, steps: 3, cfg: ${4:-2.0}, sampler_name: euler, scheduler: normal}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: p}}
END
}
of_model="model: [model, MODEL]"
draw() { local out=$1; shift; rm -rf "${work:?}/$out"; "$kiln" run --models tests/golden --no-cache --precision f32 --out "$work/$out" "$@" >"$work/stdout" 2>"$work/log"; }
picture() { find "$work/$1" -name '*.png' | sort | sed -n "${2:-1}p"; }
# alike NAME ONE OTHER, unlike NAME ONE OTHER: files
alike() { if [ -s "$2" ]; then same "$1" "$(pixels "$2")" "$(pixels "$3")"; else bad "$1" "no picture: $(tail -n 2 "$work/log")"; fi; }
unlike() { if [ -s "$2" ] && [ -s "$3" ] && [ "$(pixels "$2")" != "$(pixels "$3")" ]; then ok "$1"; else bad "$1" "the same picture, or none: $(tail -n 2 "$work/log")"; fi; }

# one_of NAME ONE A B: rows of a sweep end in any order
one_of() { case "$(pixels "$2")" in "") bad "$1" "no picture: $(tail -n 2 "$work/log")" ;; "$(pixels "$3")" | "$(pixels "$4")") ok "$1" ;; *) bad "$1" "no picture of the sweep is the one alone" ;; esac; }

# ---- the model itself
drawn_by="[model, MODEL]" workflow FreeU "$of_model" >"$work/plain.yaml"
draw plain "$work/plain.yaml"
plain=$(picture plain)

nowhere="acts at no place of this model"
lacks() { if grep -q "$2" "$3"; then bad "$1" "$(grep "$2" "$3")"; else ok "$1"; fi; } # NAME TEXT FILE
# ---- each parameter counts: the default and another value in one process, and the other alone
# counts NODE PARAMETER DEFAULT OTHER [SIZE [CFG [FURTHER INPUTS]]]
counts() {
    workflow "$1" "$of_model${7:+, $7}, $2: $3" "${5:-64}" "${6:-2.0}" >"$work/one.yaml"
    draw both "$work/one.yaml" --over "patched.$2=$3,$4"
    draw alone "$work/one.yaml" --set "patched.$2=$4"
    lacks "$1_$2_is_not_said_to_act_nowhere" "$nowhere" "$work/log"
    unlike "$1_$2_counts" "$(picture both 1)" "$(picture both 2)"
    one_of "$1_$2_alone" "$(picture alone)" "$(picture both 1)" "$(picture both 2)"
}
counts APG eta 1.0 0.2
counts APG norm_threshold 5.0 2.0
counts APG momentum 0.0 -0.5
counts CFGNorm strength 1.0 0.8
counts CFGNorm pre_cfg false true
counts RenormCFG cfg_trunc 100.0 2.0
counts RenormCFG renorm_cfg 1.0 0.7
counts RenormCFG renorm_cfg 1.0 0.8 64 1.0 # cfg 1: the positive alone is shortened
counts TemporalScoreRescaling tsr_k 0.95 0.3
counts TemporalScoreRescaling tsr_sigma 1.0 50.0 64 2.0 "tsr_k: 0.3"
counts FreSca scale_low 1.0 3.0
counts FreSca scale_high 1.25 4.0 64 2.0 "freq_cutoff: 2"
counts FreSca freq_cutoff 1 3 64 2.0 "scale_high: 4.0"
counts PerturbedAttentionGuidance scale 3.0 30.0 128 # at 64 the middle block has one cell
counts NAGuidance nag_scale 5.0 50.0
counts NAGuidance nag_alpha 0.5 1.0 64 2.0 "nag_scale: 50.0, nag_tau: 10.0"
counts NAGuidance nag_tau 1.5 9.0 64 2.0 "nag_scale: 50.0, nag_alpha: 1.0"
counts FreeU b2 1.2 3.0
counts FreeU s2 0.2 4.0
counts FreeU_V2 b2 1.4 6.0
counts FreeU_V2 s2 0.2 4.0
counts HyperTile tile_size 32 64 128
counts HyperTile swap_size 2 128 192 2.0 "tile_size: 32"
counts HyperTile max_depth 0 1 128 2.0 "tile_size: 32"
counts HyperTile scale_depth false true 128 2.0 "tile_size: 32, max_depth: 1"
counts TomePatchModel ratio 0.3 0.6
counts PatchModelAddDownscale block_number 3 2
counts PatchModelAddDownscale downscale_factor 2.0 1.5
counts PatchModelAddDownscale start_percent 0.0 0.3 64 2.0 "end_percent: 0.9"
counts PatchModelAddDownscale end_percent 0.35 1.0
counts PatchModelAddDownscale downscale_after_skip true false 64 2.0 "end_percent: 1.0"
counts PatchModelAddDownscale downscale_method bicubic area
counts PatchModelAddDownscale upscale_method bicubic nearest-exact 128 2.0 "block_number: 2, end_percent: 1.0"
for p in q k v out; do
    counts UNetSelfAttentionMultiply $p 1.0 3.0
    counts UNetCrossAttentionMultiply $p 1.0 6.0
done
counts UNetTemporalAttentionMultiply self_structural 1.0 3.0
counts UNetTemporalAttentionMultiply cross_structural 1.0 3.0
for node in CFGZeroStar TCFG Mahiro; do
    workflow $node "$of_model" >"$work/one.yaml"
    draw one "$work/one.yaml"
    unlike "${node}_counts" "$(picture one)" "$plain"
done
for p in q k v out; do
    drawn_by="[model, MODEL]" clip="[patched, CLIP]" workflow CLIPAttentionMultiply "clip: [model, CLIP], $p: 5.0" >"$work/one.yaml"
    draw one "$work/one.yaml"
    unlike "CLIPAttentionMultiply_${p}_counts" "$(picture one)" "$plain"
done

# ---- what changes nothing gives the same bytes
nothing() { # NAME NODE INPUTS [said]
    workflow "$2" "$of_model${3:+, $3}" >"$work/one.yaml"
    draw one "$work/one.yaml"
    alike "$1_changes_nothing" "$(picture one)" "$plain"
    if [ "${4:-}" ]; then
        same "$1_is_said_once" "$(grep -c "the patch '$2' $nowhere (sd-unet) at this size" "$work/log")" 1
    else
        lacks "$1_is_not_said" "$nowhere" "$work/log"
    fi
}
nothing free_u_of_ones FreeU "b1: 1.0, b2: 1.0, s1: 1.0, s2: 1.0"
nothing free_u_v2_of_ones FreeU_V2 "b1: 1.0, b2: 1.0, s1: 1.0, s2: 1.0"
nothing free_u_elsewhere FreeU "b1: 5.0, b2: 1.0, s1: 5.0, s2: 1.0" said # this UNet's lowest resolution is three times as wide as its first
nothing rescaling_by_1 TemporalScoreRescaling "tsr_k: 1.0"
nothing hyper_tile_of_one HyperTile "tile_size: 2048" said
nothing tome_of_0 TomePatchModel "ratio: 0.0"
nothing tome_of_no_token TomePatchModel "ratio: 0.01" said # of 64 tokens
nothing downscale_by_1 PatchModelAddDownscale "downscale_factor: 1.0, end_percent: 1.0"
nothing downscale_at_no_level PatchModelAddDownscale "end_percent: 0.0"
nothing pag_of_0 PerturbedAttentionGuidance "scale: 0.0"
nothing nag_of_0 NAGuidance "nag_alpha: 0.0"
nothing self_multiplied_by_1 UNetSelfAttentionMultiply
nothing cross_multiplied_by_1 UNetCrossAttentionMultiply
nothing temporal_multiplied_by_1 UNetTemporalAttentionMultiply

# ---- merged weights
merged() { workflow "$1" "model1: [model, MODEL], model2: [lora, MODEL]${2:+, $2}" >"$work/merged.yaml"; draw "$3" "$work/merged.yaml"; }
drawn_by="[lora, MODEL]" workflow FreeU "$of_model" >"$work/lora.yaml"
draw lora "$work/lora.yaml"
merged ModelMergeSimple "ratio: 1.0" first
alike merge_of_the_first_alone "$(picture first)" "$plain"
merged ModelMergeSimple "ratio: 0.0" second
alike merge_of_the_second_alone "$(picture second)" "$(picture lora)"
merged ModelMergeSimple "ratio: 0.5" half
unlike merge_of_both "$(picture half)" "$plain"
unlike merge_of_both_is_not_the_second "$(picture half)" "$(picture lora)"
merged ModelMergeBlocks "input: 0.5, middle: 0.5, out: 0.5" blocks
alike merge_of_equal_blocks "$(picture blocks)" "$(picture half)"
for part in input middle out; do
    merged ModelMergeBlocks "$part: 0.0" blocks
    unlike "merge_of_$part" "$(picture blocks)" "$plain"
    unlike "merge_of_${part}_is_not_all" "$(picture blocks)" "$(picture lora)"
done
side() { for i in $(seq 0 11); do printf ', %s_blocks.%d.: %s' "$1" "$i" "$2"; done; }
every() { printf 'time_embed.: %s, label_emb.: %s%s, middle_block.0.: %s, middle_block.1.: %s, middle_block.2.: %s%s, out.: %s' "$1" "$1" "$(side input "$1")" "$1" "$1" "$1" "$(side output "$1")" "$1"; }
merged ModelMergeSD1 "$(every 0.5)" blocks
alike merge_of_equal_numbered_blocks "$(picture blocks)" "$(picture half)"
merged ModelMergeSD1 "$(every 0.5 | sed -E 's/(output_blocks[^,]*|out\.): 0.5/\1: 1.0/g')" blocks
merged ModelMergeBlocks "input: 0.5, middle: 0.5, out: 1.0" parts
alike merge_of_numbered_blocks_on_the_way_down "$(picture blocks)" "$(picture parts)"
for name in input_blocks.1. middle_block.2. output_blocks.1.; do # which the LoRA changes, of levels of one resnet
    merged ModelMergeSD2 "$name: 0.0" blocks
    unlike "merge_of_$name" "$(picture blocks)" "$plain"
done
merged ModelMergeSD1 "" first
alike merge_of_blocks_of_the_first_alone "$(picture first)" "$plain"
draw set "$work/merged.yaml" --set patched.input_blocks.1.=0
unlike an_input_with_dots_is_set "$(picture set)" "$plain"
merged ModelMergeAdd "" added
merged ModelMergeSubtract "multiplier: 1.0" subtracted
unlike merge_added "$(picture added)" "$plain"
unlike merge_subtracted "$(picture subtracted)" "$plain"

# ---- a range: outside it the program is the one without the patch
workflow PatchModelAddDownscale "$of_model, start_percent: 0.0, end_percent: 0.35" >"$work/range.yaml"
for nodes in plain range; do
    "$kiln" run --models tests/golden --no-cache --precision f32 --explain "$work/$nodes.yaml" >"$work/$nodes.explain" 2>"$work/log"
    awk '$1 == "sampler" {print $NF}' "$work/$nodes.explain" >"$work/$nodes.gflop"
done
check a_range_costs_less awk -v a="$(cat "$work/range.gflop")" -v b="$(cat "$work/plain.gflop")" 'BEGIN {exit !(a > 0 && b > 0 && a < b)}'

# ---- PAG is one evaluation of a conditioning more: three for two
workflow PerturbedAttentionGuidance "$of_model" >"$work/pag.yaml"
expect pag_explained 0 "" "$kiln" run --models tests/golden --no-cache --precision f32 --explain "$work/pag.yaml"
pag=$(awk '$1 == "sampler" {print $NF}' "$work/stdout")
check pag_costs_half_more awk -v a="$pag" -v b="$(cat "$work/plain.gflop")" 'BEGIN {exit !(a > 1.4 * b && a < 1.55 * b)}'
expect pag_dry_run 0 "8 to run" "$kiln" run --models tests/golden --no-cache --precision f32 --dry-run "$work/pag.yaml"

# ---- two patches act in their order, and bf16 draws a picture
{ workflow FreeU "model: [first, MODEL]"; echo "  first: {class_type: PerturbedAttentionGuidance, inputs: {model: [model, MODEL]}}"; } >"$work/two.yaml"
draw two "$work/two.yaml"
unlike both_patches_act "$(picture two)" "$plain"
for node in FreeU_V2 NAGuidance HyperTile TomePatchModel PatchModelAddDownscale PerturbedAttentionGuidance; do
    workflow $node "$of_model" >"$work/one.yaml"
    expect "${node}_in_bf16" 0 "" "$kiln" run --models tests/golden --no-cache --precision bf16 --out "$work/bf16" "$work/one.yaml"
    expect "${node}_validated" 0 "" "$kiln" run --models tests/golden --no-cache --precision f32 --validate --out "$work/valid" "$work/one.yaml"
done

# ---- what cannot be had
refused() { # NAME WORDS NODE INPUTS [SIZE [CFG]]
    workflow "$3" "$4" "${5:-64}" "${6:-2.0}" >"$work/bad.yaml"
    expect "$1" 1 "$2" "$kiln" run --models tests/golden --no-cache --precision f32 --out "$work/bad" "$work/bad.yaml"
}
refused a_block_that_is_not_there "block_number is 8, and the way down of this model has blocks 0 to 7" PatchModelAddDownscale "$of_model, block_number: 8"
refused a_block_without_cells "a downscale_factor of 9 leaves none" PatchModelAddDownscale "$of_model, block_number: 4, downscale_factor: 9.0, end_percent: 1.0"
refused bislerp_of_features "upscale_method bislerp turns latents along a sphere" PatchModelAddDownscale "$of_model, upscale_method: bislerp"
refused time_that_is_not_there "no weights of this model are called 'attn1.to_out.0' with .time_stack." UNetTemporalAttentionMultiply "$of_model, self_temporal: 0.5"
refused apg_at_cfg_0 "APG divides by cfg, which is 0" APG "$of_model" 64 0.0
exit $status
