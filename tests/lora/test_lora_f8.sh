# test_lora_f8.sh - LoRAs and hooks over weights in 8 bits: the bytes are those over the same numbers in f32, in memory, streamed, at bf16,
# and for a kind of patch that a plugin computes.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
models="$work/models:tests/golden"
mkdir -p "$work/models"

# tiny-sd1 with the denoiser's matrices rounded to 8 bits: as such, and as f32
python3 - "$KILN_ROOT/tests/golden/tiny-sd1" "$work/models" <<'END'
import bisect, json, pathlib, shutil, struct, sys
source, target = map(pathlib.Path, sys.argv[1:])
def decode(byte, exponent, mantissa, bias):
    e, m = byte >> mantissa & (1 << exponent) - 1, byte & (1 << mantissa) - 1
    return (m / (1 << mantissa)) * 2.0 ** (1 - bias) if e == 0 else (1 + m / (1 << mantissa)) * 2.0 ** (e - bias)
kinds = {"F8_E4M3": [decode(b, 4, 3, 7) for b in range(0x7f)], "F8_E5M2": [decode(b, 5, 2, 15) for b in range(0x7c)]}
def nearest(table, x):
    at = min(bisect.bisect_left(table, abs(x)), len(table) - 1)
    if at and abs(x) - table[at - 1] < table[at] - abs(x): at -= 1
    return at | (0x80 if x < 0 else 0)
for kind, table in kinds.items():
    for form in ("f8", "f32"):
        folder = target / f"{kind}-{form}"
        shutil.copytree(source, folder)
        path = folder / "unet" / "diffusion_pytorch_model.safetensors"
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header, out, body = json.loads(data[8:8 + size]), {}, b""
        for name, t in header.items():
            if name == "__metadata__": continue
            at, end = t["data_offsets"]
            code = {"F32": "f", "F16": "e"}[t["dtype"]]
            numbers = struct.unpack(f"<{(end - at) // struct.calcsize(code)}{code}", data[8 + size + at:8 + size + end])
            if len(t["shape"]) >= 2:
                coded = bytes(nearest(table, x) for x in numbers)
                numbers = [table[b & 0x7f] * (-1 if b & 0x80 else 1) for b in coded]
            piece = coded if form == "f8" and len(t["shape"]) >= 2 else struct.pack(f"<{len(numbers)}f", *numbers)
            out[name] = {"dtype": kind if form == "f8" and len(t["shape"]) >= 2 else "F32", "shape": t["shape"], "data_offsets": [len(body), len(body) + len(piece)]}
            body += piece
        text = json.dumps(out).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(struct.pack("<Q", len(text)) + text + body)
END
cat >"$work/w.yaml" <<'END'
kiln: 1
params: {ckpt: tiny-sd1, lora: lora/kohya.safetensors, strength: 1.0, hook: 0.0}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: "${ckpt}"}}
  loaded: {class_type: LoraLoaderModelOnly, inputs: {model: [model, MODEL], lora_name: "${lora}", strength_model: "${strength}"}}
  positive: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a red circle}}
  negative: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: ""}}
  over: {class_type: CreateHookLoraModelOnly, inputs: {lora_name: "${lora}", strength_model: "${hook}"}}
  hooked: {class_type: ConditioningSetProperties, inputs: {cond_NEW: [positive, 0], hooks: [over, 0]}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  sampler:
    class_type: KSampler
    inputs: {model: [loaded, MODEL], positive: [hooked, 0], negative: [negative, 0], latent_image: [empty, 0], seed: 3, steps: 2, cfg: 2.0, sampler_name: euler, scheduler: normal}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: p}}
END
draw() { local out=$1; shift; "$kiln" run --models "$models" --no-cache --out "$work/$out" "$work/w.yaml" "$@"; }
pixels() { python3 - "$work/$1/p_00001_.png" "$work/$2/p_00001_.png" <<'END'
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
other() { pixels "$1" "$2"; [ $? -eq 3 ]; }

for kind in F8_E4M3 F8_E5M2; do
    both() { # NAME, WHAT TO SET
        local name=$1; shift
        for form in f8 f32; do expect "f8_${kind}_${name}_$form" 0 "" draw "$kind-$name-$form" --set "ckpt=$kind-$form" "$@"; done
        check "f8_${kind}_${name}_same" pixels "$kind-$name-f8" "$kind-$name-f32"
    }
    both plain --precision f32 --set strength=0
    both lora --precision f32
    both bf16 --precision bf16
    both hooked --precision f32 --set strength=0.5 --set hook=0.75
    both computed --precision f32 --set lora=lora_kinds/loha.safetensors
    check "f8_${kind}_lora_changes_it" other "$kind-lora-f8" "$kind-plain-f8"
    expect "f8_${kind}_streamed" 0 "memory budget" draw "$kind-streamed" --precision f32 --set "ckpt=$kind-f8" --memory 3M
    check "f8_${kind}_streamed_same" pixels "$kind-streamed" "$kind-lora-f8"
done
exit $status
