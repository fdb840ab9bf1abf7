# test_fp8_model.sh - a model stored in 8 bits (E4M3 and E5M2 by turns) draws, byte for byte, what the same numbers stored as f32 draw: on the CPU in f32 and
# bf16, on the emulated device, and under a memory budget. With scales beside the codes it draws what
# the scaled numbers draw; a form that is not known is refused by name, by run and by inspect.
status=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
case $KILN_BUILD in /*) build=$KILN_BUILD ;; *) build=$KILN_ROOT/$KILN_BUILD ;; esac
kiln=$build/kiln edit="$KILN_ROOT/tests/models/edit_tensors.py"
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH KILN_MODELS
cd "$work" || exit 2
verdict() { if [ "$2" -eq 0 ]; then echo "ok $1"; else sed 's/^/  /' log | tail -n 5 | cut -c 1-500; echo "FAIL $1"; status=1; fi; }

for kind in f8 of-f8; do
    mkdir -p $kind && cp -r "$KILN_ROOT/tests/golden/tiny-sd1" $kind/model && chmod -R u+w $kind
    for file in $kind/model/*/*.safetensors; do python3 "$edit" "$file" "$file" $kind both || exit 2; done
done
[ "$(stat -c %s f8/model/unet/*.safetensors)" -lt "$(($(stat -c %s of-f8/model/unet/*.safetensors) / 3))" ]; verdict it_is_stored_in_8_bits $?

cat >p.yaml <<'END'
nodes:
  load: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: model}}
  text: {class_type: CLIPTextEncode, inputs: {clip: [load, CLIP], text: a red circle}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64, batch_size: 1}}
  noise: {class_type: KSampler, inputs: {model: [load, MODEL], positive: [text, 0], negative: [text, 0], latent_image: [empty, 0], seed: 1, steps: 2, cfg: 2.0, sampler_name: euler, scheduler: simple, denoise: 1.0}}
  decode: {class_type: VAEDecode, inputs: {samples: [noise, 0], vae: [load, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: p}}
END
draw() { # KIND NAME ARG...
    local kind=$1 name=$2; shift 2
    rm -rf out; "$kiln" run p.yaml --models $kind --no-cache --out out "$@" >paths 2>log && mv out/p_00001_.png "$kind-$name.png"
}
same() { # NAME ARG...
    local name=$1; shift
    draw f8 "$name" "$@" && draw of-f8 "$name" "$@" && cmp "f8-$name.png" "of-f8-$name.png"; verdict "$name" $?
}
same in_f32 --precision f32
same in_bf16 --precision bf16
same in_f32_with_little_memory --precision f32 --memory 5M
cmp f8-in_f32.png f8-in_f32_with_little_memory.png; verdict memory_changes_nothing $?
if [ -e "$build/emu/kiln-cuda-emu.so" ]; then
    export KILN_CUDA_LIBRARY=$build/emu/kiln-cuda-emu.so
    # f8 stays f8 there, and few rows are multiplied as they are: sums are in another order
    draw f8 on_a_device --precision f32 --device cuda && draw of-f8 on_a_device --precision f32 --device cuda &&
        python3 "$KILN_ROOT/tests/cli/near_pixels.py" f8-on_a_device.png of-f8-on_a_device.png; verdict on_a_device $?
    same on_a_device_in_f16 --precision f16 --device cuda
    unset KILN_CUDA_LIBRARY
fi

"$kiln" inspect f8/model >log 2>&1 && grep -q 'f8_e4m3 [0-9]*, f8_e5m2 [0-9]* tensors' log; verdict inspect_shows_it $?

# The same codes with a scale of 0.375 beside each weight, against f32 numbers that were multiplied by it.
cat >scale.py <<'P'
import json, pathlib, struct, sys
S = 0.375
for coded, plain in zip(sorted(pathlib.Path("scaled").rglob("*.safetensors")), sorted(pathlib.Path("of-scaled").rglob("*.safetensors"))):
    def read(path):
        raw = path.read_bytes()
        n = struct.unpack("<Q", raw[:8])[0]
        header = json.loads(raw[8:8 + n])
        return {k: (v["dtype"], v["shape"], raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in header.items() if k != "__metadata__"}
    def write(path, tensors):
        header, data = {}, b""
        for k, (dtype, shape, raw) in sorted(tensors.items(), key=lambda x: (-len(x[1][2]), x[0])):
            header[k] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    q, f = read(coded), read(plain)
    for name in [k for k in q if k.endswith("weight") and q[k][0].startswith("F8") and len(q[k][1]) > 1]:
        raw = f[name][2]
        f[name] = ("F32", f[name][1], struct.pack(f"<{len(raw) // 4}f", *(x * S for x in struct.unpack(f"<{len(raw) // 4}f", raw))))
        q[name[:-6] + "scale_weight"] = ("F32", [], struct.pack("<f", S))
    q["scaled_fp8"] = ("F8_E4M3", [2], b"\0\0")
    write(coded, q)
    write(plain, f)
P
cp -r f8 scaled && cp -r of-f8 of-scaled && python3 scale.py || exit 2
draw scaled in_f32 --precision f32 && draw of-scaled in_f32 --precision f32 && cmp scaled-in_f32.png of-scaled-in_f32.png && ! cmp -s scaled-in_f32.png f8-in_f32.png
verdict scales_are_applied $?
"$kiln" inspect scaled/model >log 2>&1 && grep -q 'f8 scaled [0-9]*, ' log && ! grep -q 'left over' log; verdict inspect_shows_scales $?

# A scale in a form that nobody knows.
file=f8/model/unet/diffusion_pytorch_model.safetensors
python3 "$edit" $file $file also conv_in.comfy_quant:F16
draw f8 unknown; [ $? -ne 0 ] && grep -q "conv_in.comfy_quant' must be a text" log; verdict an_unknown_form_is_refused $?
"$kiln" inspect f8/model >log 2>&1; [ $? -eq 2 ] && grep -q "conv_in.comfy_quant" log
verdict inspect_says_why $?
exit $status
