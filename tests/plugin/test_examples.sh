# test_examples.sh - plugins/examples as installed: each builds without a warning against nothing but the installed headers, kiln check-plugin finds
# nothing, and its workflow gives what it has to give.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 8 said.txt; echo "FAIL $1"; status=1; fi
}
unset KILN_PLUGIN_PATH KILN_MODELS KILN_INPUT KILN_MEMORY MAKEFLAGS MFLAGS MAKELEVEL
. "$KILN_ROOT/tests/cli/installed.sh"
install_kiln "$work/usr" || { echo "FAIL install"; exit 1; }
export PKG_CONFIG_PATH="$work/usr/lib/pkgconfig" XDG_CACHE_HOME="$work/cache" XDG_DATA_HOME="$work/data"
cp -r "$work/usr/share/kiln/examples" "$work/examples" && cd "$work/examples" || exit 2
kiln="$work/usr/bin/kiln"

for cc in gcc clang; do
    command -v $cc >/dev/null || { echo "skip with_$cc: there is none"; continue; }
    make -s clean && make -s CC=$cc CXX=$([ $cc = gcc ] && echo g++ || echo clang++) CFLAGS='-O1 -Wall -Wextra -Wpedantic -Wshadow -Werror' >said.txt 2>&1; verdict "all_build_without_a_warning_$cc" $?
done
for source in *.c *.cpp; do
    so=${source%.*}.so
    [ "$source" != dit.c ] || { mkdir -p alone && cp dit.so alone/ && so=alone/dit.so; } # its workflow wants weights: test_example_dit.sh
    "$kiln" check-plugin "$so" >said.txt 2>&1; verdict "check_plugin_${source%.*}" $?
    grep -q "^| .*\b$source\b" README.md; verdict "README_names_$source" $?
done

run() { # NAME ARGUMENT...
    local name=$1; shift
    rm -rf out && "$kiln" run "$name.yaml" --plugins . --input . --no-cache --precision f32 --out out "$@" >said.txt 2>&1
}
for flow in *.yaml; do
    [ "$flow" = dit.yaml ] && continue # wants weights: test_example_dit.sh
    run "${flow%.yaml}" && [ -n "$(find out -type f -size +0)" ]; verdict "runs_$flow" $?
    "$kiln" run "$flow" --plugins . --input . --explain >said.txt 2>&1; verdict "explains_$flow" $?
done
[ "$(ls ./*.yaml | wc -l)" -ge 12 ]; verdict twelve_of_them $?
# A picture of more than one colour, which would be packed into less.
packed() { od -An -t u1 -j $(($(grep -abo IDAT "$1" | head -n 1 | cut -d: -f1) - 4)) -N 4 "$1" | awk '{ print (($1 * 256 + $2) * 256 + $3) * 256 + $4 }'; }
for name in cosine_schedule interval_guider low_rank refine sampling; do
    run $name && [ "$(packed out/*_00001_.png)" -gt 4000 ]; verdict "${name}_is_not_blank" $?
done

# ---- what they give
run hello && [ "$(cat out/hello_00001_.txt)" = hello ]; verdict hello_says_hello $?
run word_values && diff out/words_00001_.txt - >said.txt 2>&1 <<'W'
a 1
and 1
blue 1
circle 1
one 1
red 1
a 1
W
printf 'a 2\nb 1\n' >wanted.txt; run word_values --set 'text=a b  a' && cmp out/words_00001_.txt wanted.txt >said.txt 2>&1; verdict words_are_counted $?
run word_values --set 'text=' && [ ! -s out/words_00001_.txt ]; verdict no_words $?
# As PPM, whose bytes are the picture's; and of the gradient that ppm.c makes.
for flow in sobel mask_maths trails palette posterise; do sed 's/class_type: SaveImage/class_type: ExampleSavePPM/' $flow.yaml >bytes_$flow.yaml; done
sed -i 's/EmptyImage, inputs: {width: 16, height: 16, color: 9127187}/ExampleGradient, inputs: {width: 64, height: 64, blue: 0.5}/' bytes_palette.yaml
sed -i 's/EmptyImage, inputs: {width: 16, height: 16, color: 9127187}/ExampleGradient, inputs: {width: 5, height: 1, blue: 0.5}/' bytes_posterise.yaml
numbers() { tail -c +"$2" "$1" | od -An -v -tu1 | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'; } # of a PPM, from byte N on
run bytes_mask_maths && [ "$(numbers out/mask_00001_.ppm 12)" = "96 96 96 96 96 96" ]; verdict masks_difference $?
run bytes_mask_maths --set operation=union && [ "$(numbers out/mask_00001_.ppm 12)" = "191 191 191 191 191 191" ]; verdict masks_union $?
run bytes_mask_maths --set operation=exclusive && [ "$(numbers out/mask_00001_.ppm 12)" = "64 64 64 64 64 64" ]; verdict masks_exclusive $?
run bytes_mask_maths --set b.width=3; [ $? -eq 1 ] && grep -q 'a has 2 x 1 cells and b 3 x 1; scale one of them first' said.txt; verdict masks_of_two_sizes $?
# Light columns 4 to 7, dark ones 0 to 3: the difference over the edge is 1 in columns 3 and 4, Sobel's weights make 4 of it, 0.125 a half.
row="0 0 0 0 0 0 0 0 0 128 128 128 128 128 128 0 0 0 0 0 0 0 0 0"
run bytes_sobel && [ "$(numbers out/sobel_00001_.ppm 12 | cut -d ' ' -f 1-48)" = "$row $row" ]; verdict edges_are_where_they_are $?
cp out/sobel_00001_.ppm one.ppm; run bytes_sobel --threads 1 && cmp out/sobel_00001_.ppm one.ppm >said.txt 2>&1; verdict edges_for_any_number_of_threads $?
# 128 of 255 passes, a half and a quarter of it are left; the shoulder bends what is above a half: 1 - 0.25 / 0.50196.
run bytes_trails && [ "$(numbers out/trails_00001_.ppm 12)" = "0 0 0 128 128 128 64 64 64 32 32 32" ]; verdict trails_fade $?
# Of 0, 1/4, ..., 1 the nearest of 0, 1/2, 1 (a half goes up), or the one below.
reds() { numbers out/posterise_00001_.ppm 12 | tr ' ' '\n' | awk 'NR % 3 == 1' | tr '\n' ' '; }
run bytes_posterise && [ "$(reds)" = "0 128 128 255 255 " ]; verdict steps_of_brightness $?
run bytes_posterise --set rounding=down && [ "$(reds)" = "0 0 128 128 255 " ]; verdict steps_below $?
run bytes_palette && [ "$(tail -c +14 out/palette_00001_.ppm | od -An -v -tu1 -w3 | sort -u | wc -l)" -le 4 ]; verdict four_colours $?

# ---- pictures, by their pixels
pixels() { tail -c "+$(grep -abo IDAT "$1" | head -n 1 | cut -d: -f1)" "$1" | cksum; }
drawn() { local name=$1; shift; run "$name" "$@" && pixels out/*_00001_.png; }
sed 's/example_cosine/karras/' cosine_schedule.yaml >plain.yaml
plain=$(drawn plain)
[ -n "$plain" ] && [ "$(drawn cosine_schedule)" != "$plain" ]; verdict the_schedule_is_another_one $?
[ "$(drawn interval_guider --set low=0 --set high=1000)" = "$plain" ]; verdict an_interval_of_everything_is_plain_guidance $?
[ "$(drawn interval_guider)" != "$plain" ]; verdict an_interval_counts $?
[ "$(drawn interval_guider --set low=999 --set high=1000)" = "$(sed 's/cfg: 4/cfg: 1/' plain.yaml >one.yaml; drawn one)" ]; verdict outside_it_the_negative_does_not_count $?
run interval_guider --set low=6; [ $? -eq 2 ] && grep -q 'low is 6 and high 5; give the lower level as low' said.txt; verdict an_interval_that_is_none $?
[ "$(drawn low_rank --set strength=0)" = "$plain" ]; verdict a_patch_of_strength_0 $?
[ "$(drawn low_rank)" != "$plain" ]; verdict a_patch_counts $?
sed 's/middle\.1/middle.9/g' low_rank.safetensors >elsewhere.safetensors; run low_rank --set file=elsewhere.safetensors; [ $? -eq 1 ] && grep -q 'elsewhere.safetensors has no matrices for a place of this model' said.txt; verdict a_patch_for_places_that_are_not_there $?

# The patch is x + U D x behind a layer x = W h + b, so it is what a LoRA with the differences U D W and U D b makes of that layer.
python3 - "$work/usr/share/kiln/workflows/models/shapes-sd1/unet/diffusion_pytorch_model.safetensors" >said.txt 2>&1 <<'P'
import json, os, struct, sys
def read(path):
    f = open(path, "rb"); n = struct.unpack("<Q", f.read(8))[0]; head = json.loads(f.read(n)); body = f.read()
    def get(name):
        t = head[name]; a, b = t["data_offsets"]; size, code = {"F32": (4, "f"), "F16": (2, "e")}[t["dtype"]]
        return struct.unpack(f"<{(b - a) // size}{code}", body[a:b])
    return get
w, p = read(sys.argv[1]), read("low_rank.safetensors")
layer, C = "mid_block.attentions.0.transformer_blocks.0.attn1.to_out.0", 144
W, bias = w(layer + ".weight"), w(layer + ".bias")
D, U = p("middle.1.attn1.to_out.down.weight"), p("middle.1.attn1.to_out.up.weight")
DW = [[sum(D[r * C + k] * W[k * C + j] for k in range(C)) for j in range(C)] for r in range(2)]
Db = [sum(D[r * C + k] * bias[k] for k in range(C)) for r in range(2)]
diff = [sum(U[i * 2 + r] * DW[r][j] for r in range(2)) for i in range(C) for j in range(C)]
diff_b = [sum(U[i * 2 + r] * Db[r] for r in range(2)) for i in range(C)]
name, at, head, body = "lora_unet_" + layer.replace(".", "_"), 0, {}, b""
for end, shape, x in ((".diff", [C, C], diff), (".diff_b", [C], diff_b)):
    b = struct.pack(f"<{len(x)}f", *x); head[name + end] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(b)]}; at += len(b); body += b
h = json.dumps(head).encode(); os.makedirs("models/loras", exist_ok=True)
open("models/loras/same.safetensors", "wb").write(struct.pack("<Q", len(h)) + h + body)
P
sed 's/ExampleLowRank, inputs: {model: \[model, MODEL\], file: low_rank.safetensors, strength: "${strength}"}/LoraLoaderModelOnly, inputs: {model: [model, MODEL], lora_name: same.safetensors, strength_model: 1}/; s/, strength: 1}/}/
    s/class_type: SaveImage/class_type: ExampleSavePPM/' low_rank.yaml >lora.yaml
sed 's/class_type: SaveImage/class_type: ExampleSavePPM/' low_rank.yaml >hooked.yaml
run lora --models models && cp out/low_rank_00001_.ppm lora.ppm && run hooked && cp out/low_rank_00001_.ppm hooked.ppm && run hooked --set strength=0 && cp out/low_rank_00001_.ppm none.ppm &&
    python3 -c '
a, b, none = (open(n, "rb").read()[15:] for n in ("lora.ppm", "hooked.ppm", "none.ppm"))
far = lambda x, y: max(abs(p - q) for p, q in zip(x, y))
print("the LoRA and the hook differ by", far(a, b), "of 255, the patch changes", far(b, none))
assert len(a) == len(b) == 128 * 128 * 3 and far(a, b) <= 1 < 4 < far(b, none)' >said.txt 2>&1; verdict the_patch_is_the_lora_of_its_product $?
cat said.txt | sed 's/^/# /'

# ---- the CUDA kernel: it compiles, and computes what the reference does where kernels can be run on the host
if command -v nvcc >/dev/null; then
    make -s cuda CUDA_ARCH=sm_80 >said.txt 2>&1 && "$kiln" check-plugin trails.so >said.txt 2>&1; verdict the_kernel_compiles $?
else
    echo "skip the_kernel_compiles: no nvcc"
fi
emu=$(realpath "$KILN_ROOT/$KILN_BUILD/emu/kiln-cuda-emu.so" 2>/dev/null) shim="$KILN_ROOT/tests/cuda_emu"
case $KILN_BUILD in *-address | *-undefined | *-thread) emu= ;; esac # what it needs is not linked into a plain program
# A launch of the emulation is a call of its own, of which the arguments are all.
emulated() { # FOLDER SED
    mkdir -p "$1" && sed "$2" trails_kernel.cu | sed -f "$KILN_ROOT/tests/plugin/trails_kernel.sed" >"$1/kernel.cpp" &&
        c++ -std=c++17 -O1 -fPIC -I"$shim" -I"$shim/fake" -I. -c "$1/kernel.cpp" -o "$1/kernel.o" &&
        cc -std=c11 -O1 -fPIC -DTRAILS_CUDA $(pkg-config --cflags kiln) -c trails.c -o "$1/trails.o" &&
        c++ -shared "$1"/*.o "$emu" -Wl,-rpath,"$(dirname "$emu")" -o "$1/trails.so" -lm && chmod go-w "$1/trails.so" &&
        KILN_CUDA_LIBRARY=$emu "$kiln" check-plugin "$1/trails.so" --device cuda
}
if [ -e "$emu" ]; then
    emulated whole '' >said.txt 2>&1 && grep -q 'against its reference, also on cuda' said.txt; verdict the_kernel_is_right $?
    emulated broken 's/fmaf(c.decay, sum,/fmaf(-c.decay, sum,/' >said.txt 2>&1; grep -q 'FAIL device f32' said.txt; verdict a_wrong_kernel_is_told $?
else
    echo "skip the_kernel_is_right: there is no emulation of CUDA"
fi
exit $status
