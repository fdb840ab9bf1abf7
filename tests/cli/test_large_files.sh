# test_large_files.sh - files of terabytes (sparse ones): refused by what their first bytes say, not after hours of reading them whole.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
unset KILN_CACHE
# quick NAME STATUS PART COMMAND...: it ends within 20 seconds, with this status and these words
quick() {
    local name=$1 want=$2 part=$3 got; shift 3
    timeout 20 "$@" >"$work/stdout" 2>"$work/log"; got=$?
    if [ $got -ne "$want" ]; then bad "$name" "exit status $got (124: it took too long), wanted $want: $(tail -n 3 "$work/log")"
    elif ! grep -qF -- "$part" "$work/log"; then bad "$name" "does not say '$part' but: $(head -n 3 "$work/log")"
    else ok "$name"; fi
}
mkdir -p "$work/models/checkpoints"
if ! truncate -s 8T "$work/models/checkpoints/zeros.safetensors" 2>/dev/null; then echo "skip large_files: no file of 8 TiB can be made here"; exit 0; fi
model() { "$kiln" run workflows/txt2img.yaml --models "$work/models" --set "model.ckpt_name=$1" --out "$work/out"; }
export -f model; export kiln work

# ---- a file: nothing but zeros; a good header of a small model before terabytes; ends inside its header
quick zeros_are_refused_at_once 1 "zeros.safetensors" bash -c 'model zeros.safetensors'
cp tests/golden/tiny-sd1/unet/diffusion_pytorch_model.safetensors "$work/models/checkpoints/longer.safetensors"
truncate -s 8T "$work/models/checkpoints/longer.safetensors"
quick more_than_the_header_says 1 "longer.safetensors" bash -c 'model longer.safetensors'
truncate -s 300M "$work/models/checkpoints/short.safetensors"
printf '\001\002\003\004\005' | dd of="$work/models/checkpoints/short.safetensors" conv=notrunc 2>/dev/null
quick a_length_that_cannot_be 1 "short.safetensors" bash -c 'model short.safetensors'
truncate -s 400G "$work/models/checkpoints/zeros.gguf"
quick a_gguf_of_zeros 1 "zeros.gguf" bash -c 'model zeros.gguf'
"$kiln" quantize tests/golden/tiny-sd1/unet "$work/models/checkpoints/cut.gguf" --type q8_0 >/dev/null && printf '\377\377\377\377\377\377' | dd of="$work/models/checkpoints/cut.gguf" bs=1 seek=8 conv=notrunc 2>/dev/null
truncate -s 400G "$work/models/checkpoints/cut.gguf"
quick a_gguf_that_counts_too_much 1 "cut.gguf" bash -c 'model cut.gguf'

# ---- in a model folder
cp -r tests/golden/tiny-sd1 "$work/models/folder"
truncate -s 8T "$work/models/folder/unet/diffusion_pytorch_model.safetensors"
quick in_a_folder 1 "diffusion_pytorch_model.safetensors" bash -c 'model folder'

# ---- a picture
truncate -s 8T "$work/huge.png"
printf 'nodes:\n  a: {class_type: LoadImage, inputs: {image: huge.png}}\n  b: {class_type: SaveImage, inputs: {images: [a, 0]}}\n' >"$work/picture.yaml"
quick a_picture_that_is_none 1 "not a PNG, JPEG, WebP or AVIF file" "$kiln" run "$work/picture.yaml" --out "$work/out"

# ---- and what the look passes over is drawn and kept as ever
for i in 1 2; do "$kiln" run workflows/txt2img.yaml --models tests/golden --set model.ckpt_name=tiny-sd1 --set empty.width=64 --set empty.height=64 --set steps=1 --out "$work/out" --events "$work/events" -q >/dev/null 2>"$work/log"; done
if grep -q '"from": "computed"' "$work/events" && ! grep '"from": "computed"' "$work/events" | grep -qv SaveImage; then ok a_good_model_is_kept; else bad a_good_model_is_kept "$(grep -v SaveImage "$work/events" | grep computed | head -n 2)"; fi
exit $status
