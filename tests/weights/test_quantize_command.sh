# test_quantize_command.sh - `kiln quantize`: a checkpoint as GGUF and as safetensors, complete and drawn from; the picture is close to that of the given one; the same
# bytes for any number of threads; what is refused, with its sentence and exit status, and leaves no file behind.
status=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
case $KILN_BUILD in /*) kiln=$KILN_BUILD/kiln ;; *) kiln=$KILN_ROOT/$KILN_BUILD/kiln ;; esac
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH KILN_MODELS
. "$KILN_ROOT/tests/models/single_model.sh"
cd "$work" || exit 2
verdict() { if [ "$2" -eq 0 ]; then echo "ok $1"; else sed 's/^/  /' log | head -n 30 | cut -c 1-300; echo "FAIL $1"; status=1; fi; }
quantize() { local want=$1; shift; "$kiln" quantize "$@" >log 2>&1; local got=$?; [ $got -eq "$want" ] || { echo "exit status $got" >>log; return 1; }; }
says() { for words in "$@"; do grep -qE -e "$words" log || { echo "it does not say: $words" >>log; return 1; }; done; }
make_single whole.safetensors || exit 2

# ---- both formats
quantize 0 whole.safetensors q8.gguf --type q8_0 && says '^q8.gguf: .* was ' '^[0-9]+ tensors in q8_0, [0-9]+ as they were$' '^relative RMS error 0\.[0-9]+ %' &&
    [ "$(head -c 4 q8.gguf)" = GGUF ] && "$kiln" inspect q8.gguf >log 2>&1 && [ "$(grep -c ', complete$' log)" -eq 3 ] && says 'q8_0 [0-9]+ '
verdict a_gguf_checkpoint_is_complete $?
quantize 0 whole.safetensors q4.safetensors -t q4_k --keep '*.time_embed.*' && says 'tensors in q4_k, [0-9]+ in q5_0 \(their rows are no whole blocks\)' &&
    "$kiln" inspect q4.safetensors >log 2>&1 && [ "$(grep -c ', complete$' log)" -eq 3 ] && says 'q4_k [0-9]+' && "$kiln" inspect q4.safetensors --tensors >log &&
    ! grep -E 'time_embed' log | grep -qE '^q[45]_'
verdict a_safetensors_checkpoint_is_complete $?
quantize 0 whole.safetensors one.gguf -t q4_k -j 1 && quantize 0 whole.safetensors three.gguf -t q4_k -j 3 && cmp one.gguf three.gguf >>log
verdict the_same_bytes_for_any_threads $?
quantize 0 q4.safetensors back.gguf -t q4_k --keep '*.time_embed.*' && "$kiln" quantize whole.safetensors straight.gguf -t q4_k --keep '*.time_embed.*' >log && cmp back.gguf straight.gguf >>log
verdict blocks_go_from_one_format_to_the_other $?

# ---- a picture
cat >near.py <<'P'
import glob, struct, sys, zlib
def pixels(folder):
    data, at, packed, size = open(glob.glob(folder + "/*.png")[0], "rb").read(), 8, b"", None
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + n]
        if kind == b"IHDR": size = struct.unpack(">II", body[:8])
        if kind == b"IDAT": packed += body
        at += 12 + n
    raw, (w, h), out, above = zlib.decompress(packed), size, [], bytearray(size[0] * 3)
    for y in range(h):
        kind, row = raw[y * (w * 3 + 1)], bytearray(raw[y * (w * 3 + 1) + 1:(y + 1) * (w * 3 + 1)])
        for i in range(len(row)):
            a, b, c = (row[i - 3] if i > 2 else 0), above[i], (above[i - 3] if i > 2 else 0)
            p = a + b - c
            near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            row[i] = (row[i] + (0, a, b, (a + b) // 2, near)[kind]) & 255
        out += row
        above = row
    return out
want = pixels(sys.argv[1])
for folder, most in zip(sys.argv[2:], (3.0, 25.0)):
    got = pixels(folder)
    off = sum(abs(a - b) for a, b in zip(got, want)) / len(want)
    print(folder, "differs by", off, "of 255 in the mean")
    assert len(got) == len(want) and off < most
P
draw() { "$kiln" run "$KILN_ROOT/workflows/txt2img.yaml" --models . --set model.ckpt_name="$1" --set steps=3 --precision f32 --no-cache --out "out-$1" "${@:2}" >log 2>&1; }
draw whole.safetensors && draw q8.gguf && draw q4.safetensors && python3 near.py out-whole.safetensors out-q8.gguf out-q4.safetensors >>log 2>&1
verdict a_picture_is_close_to_the_given_models $?

if [ -e "${kiln%/kiln}/emu/kiln-cuda-emu.so" ]; then # a device reads the files beside the map; a small picture, since its kernels are emulated
    small=(--set steps=1 --set empty.width=64 --set empty.height=64)
    rm -r out-q8.gguf && draw q8.gguf "${small[@]}" && mv out-q8.gguf out-host &&
        KILN_CUDA_LIBRARY="${kiln%/kiln}/emu/kiln-cuda-emu.so" draw q8.gguf "${small[@]}" --device cuda && mv out-q8.gguf out-device && python3 near.py out-host out-device >>log 2>&1
    verdict a_device_draws_the_same $?
fi

# ---- what is refused
quantize 2 whole.safetensors x.gguf && says 'which type\?'; verdict no_type $?
quantize 2 whole.safetensors x.gguf -t f16 && says "'f16' is none that is stored by blocks"; verdict a_type_without_blocks $?
quantize 2 whole.safetensors x.bin -t q8_0 && says "'x.bin' must end in .gguf or .safetensors"; verdict another_ending $?
quantize 2 whole.safetensors x.gguf -t q8_0 --keep 'time_embd.*' && says "no tensor's name matches --keep 'time_embd.\*'"; verdict a_pattern_that_keeps_nothing $?
quantize 2 whole.safetensors x.safetensors -t q8_0 --arch sd1 && says 'is for a .gguf file'; verdict an_architecture_without_gguf $?
quantize 2 absent.safetensors x.gguf -t q8_0 && says 'absent.safetensors'; verdict no_such_file $?
quantize 2 whole.safetensors && says 'which file is read'; verdict one_file $?
head -c 100000 q8.gguf >cut.gguf; quantize 2 cut.gguf x.gguf -t q4_0 && says 'cut.gguf: byte [0-9]+: .*fetch'; verdict a_damaged_file $?
quantize 1 whole.safetensors /nowhere/x.gguf -t q8_0 && says '/nowhere/x.gguf: cannot write'; verdict a_folder_that_is_not_there $?
python3 -c 'import struct; h = b"{\"odd\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"; open("u8.safetensors", "wb").write(struct.pack("<Q", len(h)) + h + b"x")'
quantize 2 u8.safetensors x.gguf -t q8_0 && says "'odd' is of type u8, which GGUF does not have; write a .safetensors"; verdict a_type_gguf_does_not_have $?
[ -z "$(ls | grep -E '^x\.')" ]; verdict nothing_is_left_behind $?
"$kiln" quantize --help >log 2>&1 && says 'kiln quantize IN OUT --type TYPE' '--keep'; verdict help $?
exit $status
