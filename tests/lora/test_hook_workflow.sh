# test_hook_workflow.sh - hooks of conditionings as their users meet them: all the way at one strength they are the LoRA loaded, at 0
# and before their keyframe they are not there, a prompt is encoded for stretches, a budget changes nothing, what is wrong is said.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"

workflow() { # MODEL, POSITIVE, NEGATIVE, MORE NODES
    cat <<END
kiln: 1
params: {cfg: 2.0, lora: lora/kohya.safetensors, other: tiny-sd1, strength: 1.0, clip: 1.0}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
  yes: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a red circle}}
  no: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: ""}}
  hook: {class_type: CreateHookLora, inputs: {lora_name: "\${lora}", strength_model: "\${strength}", strength_clip: "\${clip}"}}
  zero: {class_type: CreateHookKeyframe, inputs: {strength_mult: 0.0, start_percent: 0.0}}
  half: {class_type: CreateHookKeyframe, inputs: {strength_mult: 1.0, start_percent: 0.5, prev_hook_kf: [zero, 0]}}
$4
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  sampler:
    class_type: KSampler
    inputs: {model: $1, positive: $2, negative: $3, latent_image: [empty, 0], seed: 3, steps: 4, cfg: "\${cfg}", sampler_name: euler, scheduler: normal}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: p}}
END
}
props='class_type: PairConditioningSetProperties, inputs: {positive_NEW: ["yes", 0], negative_NEW: ["no", 0]'
loaded='  loaded: {class_type: LoraLoader, inputs: {model: [model, MODEL], clip: [model, CLIP], lora_name: "${lora}", strength_model: "${strength}", strength_clip: "${clip}"}}'
keyed='  keyed: {class_type: SetHookKeyframes, inputs: {hooks: [hook, 0], hook_kf: [half, 0]}}'
workflow "[model, MODEL]" '["yes", 0]' '["no", 0]' "" >"$work/plain.yaml"
workflow "[loaded, MODEL]" '["yes", 0]' '["no", 0]' "$loaded" >"$work/loaded.yaml"
workflow "[model, MODEL]" "[both, 0]" "[both, 1]" "  both: {$props, hooks: [hook, 0]}}" >"$work/hooked.yaml"
workflow "[model, MODEL]" "[both, 0]" "[both, 1]" "  never: {class_type: SetHookKeyframes, inputs: {hooks: [hook, 0], hook_kf: [zero, 0]}}
  both: {$props, hooks: [never, 0]}}" >"$work/never.yaml"
workflow "[model, MODEL]" "[both, 0]" "[both, 1]" "$keyed
  both: {$props, hooks: [keyed, 0]}}" >"$work/keyed.yaml"
workflow "[model, MODEL]" "[both, 0]" "[both, 1]" '  frames: {class_type: CreateHookKeyframesInterpolated, inputs: {strength_start: 0.2, strength_end: 1.0, keyframes_count: 6, print_keyframes: true}}
  keyed: {class_type: SetHookKeyframes, inputs: {hooks: [hook, 0], hook_kf: [frames, 0]}}'"
  both: {$props, hooks: [keyed, 0]}}" >"$work/interpolated.yaml"
# the denoiser as it is; a prompt over the LoRA's encoder: all the way, and from half on
encode='{class_type: CLIPTextEncode, inputs: {text: a red circle, clip:'
workflow "[model, MODEL]" "[with, 0]" '["no", 0]' "$loaded
  with: $encode [loaded, CLIP]}}" >"$work/clip_loaded.yaml"
workflow "[model, MODEL]" "[with, 0]" '["no", 0]' "  hooked: {class_type: SetClipHooks, inputs: {clip: [model, CLIP], hooks: [hook, 0], apply_to_conds: false}}
  with: $encode [hooked, CLIP]}}" >"$work/clip_hooked.yaml"
workflow "[model, MODEL]" "[with, 0]" '["no", 0]' "$keyed
  hooked: {class_type: SetClipHooks, inputs: {clip: [model, CLIP], hooks: [keyed, 0], apply_to_conds: false, schedule_clip: true}}
  with: $encode [hooked, CLIP]}}" >"$work/clip_scheduled.yaml"
workflow "[model, MODEL]" "[both, 0]" '["no", 0]' "$loaded
  with: $encode [loaded, CLIP]}}
  early: {class_type: ConditioningSetTimestepRange, inputs: {conditioning: [\"yes\", 0], start: 0.0, end: 0.5}}
  late: {class_type: ConditioningSetTimestepRange, inputs: {conditioning: [with, 0], start: 0.5, end: 1.0}}
  both: {class_type: ConditioningCombine, inputs: {conditioning_1: [early, 0], conditioning_2: [late, 0]}}" >"$work/clip_stretches.yaml"
# with apply_to_conds the denoiser has it too
workflow "[model, MODEL]" "[with, 0]" '["no", 0]' "  hooked: {class_type: SetClipHooks, inputs: {clip: [model, CLIP], hooks: [hook, 0]}}
  with: $encode [hooked, CLIP]}}" >"$work/clip_applied.yaml"
workflow "[model, MODEL]" "[with, 0]" '["no", 0]' "$loaded
  coded: $encode [loaded, CLIP]}}
  with: {class_type: ConditioningSetProperties, inputs: {cond_NEW: [coded, 0], hooks: [hook, 0]}}" >"$work/clip_set.yaml"
sed 's/class_type: CreateHookLora, inputs: {lora_name: "${lora}"/class_type: CreateHookModelAsLora, inputs: {ckpt_name: "${other}"/' "$work/hooked.yaml" >"$work/as_lora.yaml"

draw() { local out=$1; shift; "$kiln" run --models "$work/models:tests/golden" --no-cache --precision f32 --out "$work/$out" "$@"; }
picture() { echo "$work/$1/p_00001_.png"; }
pixels() { python3 - "$1" "$2" <<'END'
import sys, zlib
def idat(path):
    data, at, out = open(path, "rb").read(), 8, b""
    while at < len(data):
        n = int.from_bytes(data[at:at + 4], "big")
        if data[at + 4:at + 8] == b"IDAT": out += data[at + 8:at + 8 + n]
        at += 12 + n
    return zlib.decompress(out)
sys.exit(0 if idat(sys.argv[1]) == idat(sys.argv[2]) else 3)
END
}
same() { pixels "$(picture "$1")" "$(picture "$2")"; }
other() { same "$1" "$2"; [ $? -eq 3 ]; }

mkdir -p "$work/models/loras"
for file in "$work"/*.yaml; do
    name=$(basename "$file" .yaml)
    [ "$name" = as_lora ] || expect "hook_$name" 0 "" draw "$name" "$file"
done
check hook_all_the_way_is_the_lora_loaded same hooked loaded
check hook_changes_the_picture other hooked plain
check hook_at_0_changes_no_byte same never plain
check hook_from_half_on_is_neither other keyed hooked
check hook_from_half_on_is_no_plain_one other keyed plain
check hook_interpolated_is_another other interpolated keyed
check hook_clip_is_the_lora_loaded same clip_hooked clip_loaded
check hook_clip_changes_the_picture other clip_hooked plain
check hook_clip_by_stretches same clip_scheduled clip_stretches
check hook_clip_by_stretches_is_another other clip_scheduled clip_hooked
check hook_clip_on_entries_too same clip_applied clip_set
check hook_clip_on_entries_is_another other clip_applied clip_hooked
expect hook_strength_0 0 "" draw none "$work/hooked.yaml" --set strength=0 --set clip=0
check hook_strength_0_changes_no_byte same none plain
expect hook_model_alone 0 "" draw alone "$work/keyed.yaml" --set clip=0
check hook_clip_strength_is_for_the_clip same alone keyed
expect hook_print_keyframes 0 "hook keyframe: start_percent 0.4, strength 0.52" draw said "$work/interpolated.yaml" -v

# ---- a checkpoint's difference
cp -r tests/golden/tiny-sd1 "$work/models/other-sd1"
python3 - "$work/models/other-sd1" <<'END'
import pathlib, struct, sys
for part in ("unet", "text_encoder"):
    for path in (pathlib.Path(sys.argv[1]) / part).glob("*.safetensors"):
        data = bytearray(path.read_bytes())
        start = 8 + struct.unpack("<Q", data[:8])[0]
        for at in range(start + 3, len(data), 44): data[at] ^= 0x80  # a sign here and there
        path.write_bytes(data)
END
sed 's/ckpt_name: tiny-sd1/ckpt_name: other-sd1/' "$work/plain.yaml" >"$work/other_plain.yaml"
expect hook_as_lora_of_itself 0 "" draw itself "$work/as_lora.yaml"
expect hook_as_lora_other_model 0 "" draw other_plain "$work/other_plain.yaml"
expect hook_as_lora_of_another 0 "" draw another "$work/as_lora.yaml" --set other=other-sd1
# all of the difference on both sides, prompts encoded by the first: the pictures agree as far as sums of f32 do
near() { python3 "$KILN_ROOT/tests/cli/near_pixels.py" "$(picture "$1")" "$(picture "$2")"; }
check hook_as_lora_of_itself_changes_nothing near itself plain
check hook_as_lora_of_another_changes_it other another plain
sed 's/clip: \[model, CLIP\]/clip: [first, CLIP]/' "$work/other_plain.yaml" | sed 's/^  model:/  first: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}\n  model:/' >"$work/other_unet.yaml"
expect hook_as_lora_other_unet 0 "" draw other_unet "$work/other_unet.yaml"
check hook_as_lora_of_another_is_it near another other_unet
# the same of a checkpoint whose weights are blocks
cp -r "$work/models/other-sd1" "$work/models/blocks-sd1"
unet=$(ls "$work"/models/other-sd1/unet/*.safetensors) && rm "$work"/models/blocks-sd1/unet/*.safetensors
expect hook_quantized 0 "" "$kiln" quantize "$unet" "$work/models/blocks-sd1/unet/$(basename "$unet")" --type q4_0
expect hook_as_lora_of_blocks 0 "" draw of_blocks "$work/as_lora.yaml" --set other=blocks-sd1
sed 's/ckpt_name: other-sd1/ckpt_name: blocks-sd1/' "$work/other_unet.yaml" >"$work/blocks_unet.yaml"
expect hook_as_lora_blocks_unet 0 "" draw blocks_unet "$work/blocks_unet.yaml"
check hook_as_lora_of_blocks_is_it near of_blocks blocks_unet
check hook_as_lora_of_blocks_is_another other of_blocks another

# ---- a budget, a sweep, kept results
expect hook_budget 0 "" draw budget "$work/interpolated.yaml" --memory 12M
check hook_in_a_budget_the_same same budget interpolated
expect hook_sweep 0 "" draw sweep "$work/keyed.yaml" --over strength=0,1,0.5
# rows may finish in any order
has() { local file; for file in "$work/sweep"/*.png; do pixels "$file" "$(picture "$1")" && return 0; done; return 1; }
check hook_in_a_sweep_at_0 has plain
check hook_in_a_sweep_at_1 has keyed
kept() { "$kiln" run --models "$work/models:tests/golden" --cache "$work/kept" --out "$work/kept-out" --precision f32 "$@" --events "$work/events"; }
expect hook_kept 0 "" kept "$work/clip_applied.yaml"
expect hook_kept_again 0 "" kept "$work/clip_applied.yaml"
check hook_kept_again_computes_nothing grep -q '"cached": *true' "$work/events"
expect hook_kept_other_strength 0 "" kept "$work/clip_applied.yaml" --set strength=0.25
last=$(find "$work/kept-out" -name '*.png' | sort | tail -n 1)
is_other() { pixels "$1" "$2"; [ $? -eq 3 ]; }
check hook_strength_is_in_the_key is_other "$last" "$(picture clip_applied)"

# ---- what is said
cp tests/golden/unet.safetensors "$work/models/loras/none.safetensors"
expect hook_of_nothing 1 "fits this model; the first is" draw no "$work/hooked.yaml" --set lora=none.safetensors
expect hook_missing 2 "no file 'nowhere.safetensors' for loras" draw no "$work/hooked.yaml" --set lora=nowhere.safetensors
expect hook_out_of_range 2 "strength_model" draw no "$work/hooked.yaml" --set strength=21
exit $status
