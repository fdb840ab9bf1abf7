# test_context_window_nodes.sh - ContextWindowsManual as its users meet it: pictures that do not see one another are what they are without, each
# number counts, a window's entries, noise and latents are those it is said to have; what cannot be had is said.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"

# workflow "INPUTS" [MODEL [POSITIVE [PICTURES]]]
workflow() {
    cat <<END
kiln: 1
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
  windows: {class_type: ContextWindowsManual, inputs: {model: [model, MODEL], context_length: 3, context_overlap: ${overlap:-1}$1}}
  pag: {class_type: PerturbedAttentionGuidance, inputs: {model: [windows, MODEL], scale: 3.0}}
  plain_pag: {class_type: PerturbedAttentionGuidance, inputs: {model: [model, MODEL], scale: 3.0}}
  red: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a red circle}}
  blue: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: blue}}
  two: {class_type: ConditioningCombine, inputs: {conditioning_1: [red, 0], conditioning_2: [blue, 0]}}
  half: {class_type: SolidMask, inputs: {value: 0.5, width: 64, height: 64}}
  halves: {class_type: RepeatImageBatch, inputs: {image: [mask_image, 0], amount: 5}}
  mask_image: {class_type: MaskToImage, inputs: {mask: [half, 0]}}
  each: {class_type: ImageToMask, inputs: {image: [halves, 0], channel: red}}
  masked: {class_type: ConditioningSetMask, inputs: {conditioning: [red, 0], mask: [each, 0], strength: 1.0, set_cond_area: default}}
  latent: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64, batch_size: ${4:-5}}}
  sampler:
    class_type: KSampler
    inputs: {model: [${2:-windows}, 0], positive: [${3:-red}, 0], negative: [blue, 0], latent_image: [latent, 0], seed: 3, steps: 3, cfg: 3.0, sampler_name: euler, scheduler: normal}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: p}}
END
}
draw() { local out=$1; shift; rm -rf "${work:?}/$out"; "$kiln" run --models tests/golden --no-cache --precision f32 --out "$work/$out" "$@" >"$work/stdout" 2>"$work/log"; }
# drawn NAME "INPUTS" [MODEL [POSITIVE [PICTURES]]]
drawn() { local name=$1; shift; workflow "$@" >"$work/$name.yaml"; draw "$name" "$work/$name.yaml" || { bad "$name" "$(tail -n 2 "$work/log")"; }; }
picture() { find "$work/$1" -name '*.png' | sort | sed -n "${2:-1}p"; }
# The largest difference of any number of two folders' pictures; 999: there are others, or none.
apart() {
    python3 - "$work/$1" "$work/$2" "$KILN_ROOT/tests/cli" <<'END'
import pathlib, struct, sys, zlib
def pixels(path):
    data, at, out = path.read_bytes(), 8, b""
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR": width, height = struct.unpack(">II", data[at + 8:at + 16])
        if kind == b"IDAT": out += data[at + 8:at + 8 + n]
        at += 12 + n
    raw, stride, rows, before = zlib.decompress(out), width * 3, [], bytearray(width * 3)
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            a, b, c = (line[i - 3] if i > 2 else 0), before[i], (before[i - 3] if i > 2 else 0)
            p = a + b - c
            near = a if abs(p - a) <= abs(p - b) and abs(p - a) <= abs(p - c) else b if abs(p - b) <= abs(p - c) else c
            line[i] = (line[i] + (0, a, b, (a + b) // 2, near)[kind]) & 255
        rows.append(bytes(line)); before = line
    return b"".join(rows)
one, other = (sorted(pathlib.Path(p).glob("*.png")) for p in sys.argv[1:3])
print(max((max(abs(a - b) for a, b in zip(pixels(x), pixels(y))) for x, y in zip(one, other)), default=999) if len(one) == len(other) else 999)
END
}
near() { case "$(apart "$2" "$3")" in 0 | 1) ok "$1" ;; *) bad "$1" "$(apart "$2" "$3") of 255 apart" ;; esac; }
far() { local d; d=$(apart "$2" "$3"); if [ "$d" -gt 2 ] && [ "$d" -lt 999 ]; then ok "$1"; else bad "$1" "$d of 255 apart"; fi; }

# ---- the same pictures, by every schedule and way to fuse
drawn plain "" model
for schedule in standard_static standard_uniform looped_uniform batched; do
    drawn one ", context_schedule: $schedule"
    near "${schedule}_is_as_whole" one plain
done
for fuse in relative flat overlap-linear; do
    drawn one ", fuse_method: $fuse"
    near "${fuse}_is_as_whole" one plain
done
drawn plain_pag "" plain_pag; drawn one "" pag
near a_further_guess_in_windows one plain_pag

# ---- what shows them
drawn both "" model two; drawn split ", split_conds_to_windows: true" windows two
drawn red "" model red; drawn blue "" model blue
far entries_are_split split both
cp "$(picture red 1)" "$work/first.png"; same the_first_window_has_the_first_entry "$(pixels "$(picture split 1)")" "$(pixels "$work/first.png")"
same the_last_window_has_the_last "$(pixels "$(picture split 5)")" "$(pixels "$(picture blue 5)")"
drawn free ", freenoise: true"
far freenoise_counts free plain
same and_leaves_the_first_window "$(pixels "$(picture free 1)")" "$(pixels "$(picture plain 1)")"
drawn retained ", latent_retain_index_list: '0', causal_window_fix: false"
far retained_latents_count retained plain
drawn few "" windows red 3; drawn few_plain "" model red 3
same few_pictures_are_whole "$(pixels "$(picture few 2)")" "$(pixels "$(picture few_plain 2)")"

# ---- what cannot be had
refused() { # NAME STATUS WORDS "INPUTS" [POSITIVE [PICTURES]]
    workflow "$4" windows "${5:-red}" "${6:-5}" >"$work/one.yaml"
    expect "$1" "$2" "$3" "$kiln" run "$work/one.yaml" --models tests/golden --no-cache --out "$work/no"
}
overlap=3 refused overlap_of_a_whole_window 2 "context_overlap 3 is not below context_length 3" ""
refused another_dimension 2 "windows are of the pictures of a batch, dim 0" ", dim: 2"
refused a_list_that_is_none 2 "cond_retain_index_list '0;1': numbers from 0 to 4095" ", cond_retain_index_list: '0;1'"
refused a_stride_too_wide 1 "one would reach past the last" ", context_schedule: standard_uniform, context_stride: 2" red 4
refused a_mask_for_each 1 "a mask for each of several pictures" "" masked

# ---- hints of a control: each picture has its own, in whatever window it is (diffusers' pictures, as tests/control has them)
. tests/control/control_workflows.sh
golden_plugin
{
    begin
    apply first "yes no" net pair 0.8
    apply on first adapter pair 0.5
    echo "  alone: {class_type: ContextWindowsManual, inputs: {model: [model, 0], context_length: 1, context_overlap: 0, context_schedule: batched}}"
    sample pair_two_hints "on, 0" "on, 1" steps x2 alone
    compare pair_two_hints
} >"$work/hints.yaml"
run hints --no-cache; as_golden pair_two_hints hints
exit $status
