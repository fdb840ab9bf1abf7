# test_lora_workflow.sh - a LoRA as its users meet it: strengths change the picture and 0 is the model itself, loaders add up, a sweep
# over strengths in one process gives what single runs give, a budget changes nothing, what cannot be had is said.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"

head_of() { # NODES BEFORE, MODEL, CLIP
    cat <<END
kiln: 1
params: {strength: 1.0, lora: lora/kohya.safetensors}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
$1
  positive: {class_type: CLIPTextEncode, inputs: {clip: $3, text: a red circle}}
  negative: {class_type: CLIPTextEncode, inputs: {clip: $3, text: ""}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  sampler:
    class_type: KSampler
    inputs: {model: $2, positive: [positive, 0], negative: [negative, 0], latent_image: [empty, 0], seed: 3, steps: 3, cfg: 2.0, sampler_name: euler, scheduler: normal}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: p}}
END
}
one='  one: {class_type: LoraLoader, inputs: {model: [model, MODEL], clip: [model, CLIP], lora_name: "${lora}", strength_model: "${strength}", strength_clip: "${strength}"}}'
two='  two: {class_type: LoraLoader, inputs: {model: [one, MODEL], clip: [one, CLIP], lora_name: lora/kohya.safetensors, strength_model: 0.5, strength_clip: 0.5}}'
only='  only: {class_type: LoraLoaderModelOnly, inputs: {model: [model, MODEL], lora_name: "${lora}", strength_model: "${strength}"}}'
head_of "" "[model, MODEL]" "[model, CLIP]" >"$work/base.yaml"
head_of "$one" "[one, MODEL]" "[one, CLIP]" >"$work/one.yaml"
head_of "$one
$two" "[two, MODEL]" "[two, CLIP]" >"$work/two.yaml"
head_of "$only" "[only, MODEL]" "[model, CLIP]" >"$work/only.yaml"
draw() { local out=$1; shift; "$kiln" run --models tests/golden --no-cache --out "$work/$out" "$@"; }
picture() { echo "$work/$1/p_00001_.png"; }

expect lora_base 0 "" draw base "$work/base.yaml" --precision f32
for s in 1 0 0.5 -1; do expect "lora_strength_$s" 0 "" draw "s$s" "$work/one.yaml" --precision f32 --set "strength=$s"; done
expect lora_model_only 0 "" draw only "$work/only.yaml" --precision f32
expect lora_chained 0 "" draw two "$work/two.yaml" --precision f32 --set strength=0.5
expect lora_bf16 0 "" draw bf16 "$work/one.yaml" --precision bf16
# 0: the same, 3: others, anything else: one of them is no picture
same_pixels() { python3 - "$1" "$2" <<'END'
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
other_pixels() { same_pixels "$1" "$2"; [ $? -eq 3 ]; }
check lora_strength_0_is_the_base same_pixels "$(picture base)" "$(picture s0)"
check lora_changes_the_picture other_pixels "$(picture base)" "$(picture s1)"
check lora_strengths_differ other_pixels "$(picture s0.5)" "$(picture s1)"
check lora_below_0_is_another other_pixels "$(picture s-1)" "$(picture s1)"
check lora_model_only_is_another other_pixels "$(picture only)" "$(picture s1)"
check lora_chained_is_more_than_one other_pixels "$(picture two)" "$(picture s0.5)"

# ---- one process: a sweep shares the base and gives the same pictures
expect lora_sweep 0 "" draw sweep "$work/one.yaml" --precision f32 --over strength=0,1,0.5,-1
# each once; rows may finish in any order
in_sweep() { local file; for file in "$work/sweep"/*.png; do same_pixels "$file" "$(picture "s$1")" && return 0; done; return 1; }
check lora_sweep_of_four test "$(find "$work/sweep" -name '*.png' | wc -l)" -eq 4
for s in 0 1 0.5 -1; do check "lora_sweep_$s" in_sweep "$s"; done

# ---- a budget: the least that works, the same picture
expect lora_too_small 1 "is too small for this workflow" draw small "$work/one.yaml" --precision f32 --memory 10K
needed=$(sed -n 's/.*give --memory \([0-9]*M\) or more.*/\1/p' "$work/log")
expect lora_least_budget 0 "memory budget" draw least "$work/one.yaml" --precision f32 --memory "$needed"
check lora_least_budget_same same_pixels "$(picture least)" "$(picture s1)"

# ---- results are kept by the LoRA's content and the strength
cached() { "$kiln" run --models "$work/models:tests/golden" --cache "$work/kept" --out "$work/kept-out" --precision f32 "$work/one.yaml" --events "$work/events" "$@"; }
mkdir -p "$work/models/loras"
cp tests/golden/lora/kohya.safetensors "$work/models/loras/mine.safetensors"
expect lora_cache_first 0 "" cached --set lora=mine.safetensors
expect lora_cache_again 0 "" cached --set lora=mine.safetensors
check lora_cache_again_computes_nothing grep -q '"cached": *true' "$work/events"
cp tests/golden/lora/peft.safetensors "$work/models/loras/mine.safetensors"
expect lora_cache_other_file_of_that_name 0 "" cached --set lora=mine.safetensors
last=$(find "$work/kept-out" -name '*.png' | sort | tail -n 1)
check lora_cache_other_picture other_pixels "$last" "$(picture s1)"

# ---- the LoRA that ships: black ground where the prompt is silent, and the model's own white without it
shipped() { "$kiln" run workflows/lora.yaml --no-cache --quiet --out "$work/shipped" --set "strength=$1"; }
for s in 0 1; do
    expect "lora_shipped_$s" 0 "" shipped $s
    ground=white; [ $s = 1 ] && ground=black
    printf '%s\ta red circle above a blue square on a %s background\n' "$(tail -n 1 "$work/stdout")" $ground >"$work/list.tsv"
    expect "lora_shipped_on_$ground" 0 "1 of 1 right" "$KILN_BUILD/tests/judge/judge" --list "$work/list.tsv" --at-least 1
done

# ---- what is said
expect lora_missing 2 "no file 'nowhere.safetensors' for loras" draw no "$work/one.yaml" --set lora=nowhere.safetensors
expect lora_near_name 2 "did you mean 'mine.safetensors'" "$kiln" run --models "$work/models:tests/golden" --out "$work/no" "$work/one.yaml" --set lora=mime.safetensors
head -c 5000 tests/golden/lora/kohya.safetensors >"$work/models/loras/cut.safetensors"
expect lora_cut_short 1 "cut.safetensors" "$kiln" run --no-cache --models "$work/models:tests/golden" --out "$work/no" "$work/one.yaml" --set lora=cut.safetensors
cp tests/golden/unet.safetensors "$work/models/loras/other.safetensors"
expect lora_of_nothing 1 "fits this model; the first is" "$kiln" run --no-cache --models "$work/models:tests/golden" --out "$work/no" "$work/one.yaml" --set lora=other.safetensors
expect lora_out_of_range 2 "strength_model" draw no "$work/one.yaml" --set strength=101
expect lora_help 0 "a file of the loras folder" "$kiln" nodes LoraLoader
exit $status
