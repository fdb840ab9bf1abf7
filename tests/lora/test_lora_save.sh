# test_lora_save.sh - LoraSave: what a LoRA changed, subtracted and saved, draws the same again; names, types and ranks in the file are
# ComfyUI's; a product at the whole rank and no cut is the difference itself; what is wrong is said.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
models="$work/models:tests/golden"
mkdir -p "$work/models"

cat >"$work/save.yaml" <<'END'
kiln: 1
params: {type: standard, rank: 8, biases: true, clamp: true, strength: 0.8, prefix: loras/mine}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
  loaded: {class_type: LoraLoader, inputs: {model: [model, MODEL], clip: [model, CLIP], lora_name: lora/kohya.safetensors, strength_model: "${strength}", strength_clip: "${strength}"}}
  changed: {class_type: ModelMergeSubtract, inputs: {model1: [loaded, MODEL], model2: [model, MODEL], multiplier: 1.0}}
  words: {class_type: CLIPMergeSubtract, inputs: {clip1: [loaded, CLIP], clip2: [model, CLIP], multiplier: 1.0}}
  save: {class_type: LoraSave, inputs: {model_diff: [changed, 0], text_encoder_diff: [words, 0], filename_prefix: "${prefix}", rank: "${rank}", lora_type: "${type}", bias_diff: "${biases}", clamp: "${clamp}"}}
END
cat >"$work/draw.yaml" <<'END'
kiln: 1
params: {lora: lora/kohya.safetensors, strength: 0.8}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
  loaded: {class_type: LoraLoader, inputs: {model: [model, MODEL], clip: [model, CLIP], lora_name: "${lora}", strength_model: "${strength}", strength_clip: "${strength}"}}
  positive: {class_type: CLIPTextEncode, inputs: {clip: [loaded, CLIP], text: a red circle}}
  negative: {class_type: CLIPTextEncode, inputs: {clip: [loaded, CLIP], text: ""}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  sampler:
    class_type: KSampler
    inputs: {model: [loaded, MODEL], positive: [positive, 0], negative: [negative, 0], latent_image: [empty, 0], seed: 3, steps: 2, cfg: 2.0, sampler_name: euler, scheduler: normal}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: p}}
END
save() { local out=$1; shift; "$kiln" run --models "$models" --no-cache --precision f32 --out "$work/$out" "$work/save.yaml" "$@"; }
draw() { local out=$1; shift; "$kiln" run --models "$models" --no-cache --precision f32 --out "$work/$out" "$work/draw.yaml" "$@"; }

expect lora_save 0 "" save standard
expect lora_save_whole 0 "" save whole --set type=full_diff
expect lora_save_narrow 0 "" save narrow --set rank=2 --set biases=false
expect lora_save_exact 0 "" save exact --set rank=4096 --set clamp=false
mkdir -p "$work/models/loras"
for name in standard whole narrow exact; do cp "$work/$name/loras/mine_00001_.safetensors" "$work/models/loras/$name.safetensors"; done

# what each file has: ENDING TYPE DIMENSIONS of every tensor, each kind once
kinds() { python3 - "$1" <<'END'
import collections, json, struct, sys
data = open(sys.argv[1], "rb").read()
header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
header.pop("__metadata__")
prefixes, kinds, ranks = set(), collections.Counter(), set()
for name, t in header.items():
    prefixes.add(name.split(".")[0])
    kinds[name.rsplit(".", 2)[-2] + "." + name.rsplit(".", 1)[-1] if name.endswith(".weight") else name.rsplit(".", 1)[-1], t["dtype"], len(t["shape"])] += 1
    if name.endswith("lora_down.weight"): ranks.add(t["shape"][0])
print(sorted(prefixes), sorted({k[0] for k in kinds}), sorted({k[1] for k in kinds}), sorted(ranks))
END
}
expect lora_save_kinds 0 "['diffusion_model', 'text_encoders'] ['lora_down.weight', 'lora_up.weight'] ['F16'] [8]" kinds "$work/models/loras/standard.safetensors"
expect lora_save_kinds_whole 0 "['diffusion_model', 'text_encoders'] ['diff'] ['F16'] []" kinds "$work/models/loras/whole.safetensors"
expect lora_save_kinds_narrow 0 "['lora_down.weight', 'lora_up.weight'] ['F16'] [2]" kinds "$work/models/loras/narrow.safetensors"
names() { python3 - "$1" <<'END'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
print(*json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]]), sep="\n")
END
}
names "$work/models/loras/standard.safetensors" >"$work/names"
expect lora_save_inspect 0 "LoRA" "$kiln" inspect "$work/models/loras/standard.safetensors"
check lora_save_single_file_names grep -q '^diffusion_model.input_blocks' "$work/names"
check lora_save_encoder_names grep -q '^text_encoders.clip_l.transformer.text_model' "$work/names"

# drawn again
expect lora_save_draw 0 "" draw lora
expect lora_save_draw_none 0 "" draw none --set strength=0
for name in standard whole narrow exact; do expect "lora_save_draw_$name" 0 "" draw "drawn_$name" --set "lora=$name.safetensors" --set strength=1; done
cat >"$work/mean.py" <<'END'
import sys, zlib
def values(path):
    data, at, out = open(path, "rb").read(), 8, b""
    while at < len(data):
        n = int.from_bytes(data[at:at + 4], "big")
        if data[at + 4:at + 8] == b"IDAT": out += data[at + 8:at + 8 + n]
        at += 12 + n
    raw = zlib.decompress(out)
    w, h = (int.from_bytes(data[k:k + 4], "big") for k in (16, 20))
    size, last, all = 3 * w, bytearray(3 * w), []
    for y in range(h):
        kind, line = raw[y * (size + 1)], bytearray(raw[y * (size + 1) + 1:(y + 1) * (size + 1)])
        for x in range(size):
            a, b, c = (line[x - 3] if x > 2 else 0), last[x], (last[x - 3] if x > 2 else 0)
            p = a + b - c
            line[x] = (line[x] + (0, a, b, (a + b) // 2, min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2])[kind]) & 255
        all += line
        last = line
    return all
a, b = values(sys.argv[1]), values(sys.argv[2])
print(sum(abs(x - y) for x, y in zip(a, b)) / len(a))
END
mean() { python3 "$work/mean.py" "$work/$1/p_00001_.png" "$work/$2/p_00001_.png"; }
at_most() { python3 -c "import sys; sys.exit(not $(mean "$1" "$2") <= $3)"; }
at_least() { python3 -c "import sys; sys.exit(not $(mean "$1" "$2") >= $3)"; }
check lora_save_changes_something at_least none lora 0.5
check lora_save_whole_is_it at_most drawn_whole lora 0.05
check lora_save_exact_is_it at_most drawn_exact lora 0.05
check lora_save_standard_is_nearer at_most drawn_standard lora "$(mean none lora) / 2"
check lora_save_narrow_is_not_the_same at_least drawn_narrow drawn_standard 0.01

# ---- what is said
expect lora_save_of_nothing 1 "both models are the same" save no --set strength=0
sed '/model_diff/s/model_diff: \[changed, 0\], text_encoder_diff: \[words, 0\], //' "$work/save.yaml" >"$work/bare.yaml"
expect lora_save_without_inputs 1 "nothing to extract; wire model_diff" "$kiln" run --models "$models" --no-cache --out "$work/no" "$work/bare.yaml"
expect lora_save_outside 2 "" save no --set prefix=../mine
expect lora_save_rank 2 "rank" save no --set rank=0
exit $status
