# test_inspect.sh - `kiln inspect`: parts, facts, sizes and types of files and folders; what is missing and what is left over; metadata; as JSON, against what
# Python finds in the header; files that are no checkpoint; and that nothing but headers is read.
status=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
case $KILN_BUILD in /*) kiln=$KILN_BUILD/kiln ;; *) kiln=$KILN_ROOT/$KILN_BUILD/kiln ;; esac
edit="$KILN_ROOT/tests/models/edit_tensors.py"
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH KILN_MODELS
. "$KILN_ROOT/tests/models/single_model.sh"
cd "$work" || exit 2
verdict() { if [ "$2" -eq 0 ]; then echo "ok $1"; else sed 's/^/  /' log | head -n 30 | cut -c 1-300; echo "FAIL $1"; status=1; fi; }
# inspect STATUS ARG...: into log
inspect() { local want=$1; shift; "$kiln" inspect "$@" >log 2>&1; local got=$?; [ $got -eq "$want" ] || { echo "exit status $got" >>log; return 1; }; }
says() { for words in "$@"; do grep -qE -e "$words" log || { echo "it does not say: $words" >>log; return 1; }; done; }

# ---- a folder, and a single file
inspect 0 "$KILN_ROOT/workflows/models/shapes-sd1" &&
    says '^denoiser: .*, complete$' 'parameters +8,322,436, 16.6 MB: f16 442 tensors' 'latent +4 channels, 8 pixels a cell, scale 0.18215' \
        'predicts eps; sigma 0.02917 to 14.6146 in 1000 levels' 'conditioning +tokens \(tokens 96\)' '^text encoder: .*, complete$' \
        'encoder l .*width 96, pooled 96, 2 layers, takes layer -1, chunks of 77 tokens padded with 629' '^autoencoder: .*, complete$' \
        'picture +3 channels; encodes, decodes, may be tiled' 'unet/diffusion_pytorch_model.safetensors \(16.6 MB\)' && ! grep -q 'left over' log
verdict a_folder $?
make_single whole.safetensors && inspect 0 whole.safetensors && [ "$(grep -c ', complete$' log)" -eq 3 ] && ! grep -q 'left over' log; verdict a_single_file $?
python3 "$edit" whole.safetensors unet.safetensors drop cond_stage_model. drop first_stage_model.
inspect 0 unet.safetensors && [ "$(grep -c ', complete$' log)" -eq 1 ] && says '^denoiser: ' && ! grep -q 'left over' log; verdict a_denoiser_alone $?

# ---- what is missing, what is left over
python3 "$edit" whole.safetensors hole.safetensors drop model.diffusion_model.middle_block.0.in_layers.2.weight also model.diffusion_model.odd.weight:F16 \
    also extra.a.x:F16 also extra.b.y:F16 also lonely:F16 also model_ema.decay:F16
inspect 2 hole.safetensors && says '^denoiser: .*, NOT COMPLETE' "missing .*hole.safetensors: no tensor 'mid_block.resnets.0.conv1.weight'" 'left over: 3 tensors' \
    'extra\.\*: 2 tensors \(extra.a.x' '^  lonely$' 'not needed: 1 tensor' && [ "$(grep -c ', complete$' log)" -eq 2 ]
verdict what_is_missing_is_named $?
python3 "$edit" whole.safetensors more.safetensors also model.diffusion_model.odd.weight:F16
inspect 0 more.safetensors && says 'left over: 1 tensor ' '^  model.diffusion_model.odd.weight$'; verdict what_a_part_leaves_over $?
python3 "$edit" whole.safetensors ema.safetensors ema
inspect 0 ema.safetensors && says 'not needed: [0-9]{3} tensors of known kinds' && ! grep -q 'left over' log; verdict averages_are_not_needed $?

# ---- JSON against the header
inspect 0 ema.safetensors --json && python3 - log ema.safetensors <<'P'
import json, math, struct, sys
found = json.load(open(sys.argv[1]))
with open(sys.argv[2], "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
part = {p["kind"]: p for p in found["parts"]}
assert sorted(part) == ["autoencoder", "denoiser", "text_encoder"], sorted(part)
for kind, prefix in (("denoiser", "model.diffusion_model."), ("autoencoder", "first_stage_model.")):
    own = [t for name, t in header.items() if name.startswith(prefix)]
    assert part[kind]["tensors"] == len(own), (kind, part[kind]["tensors"], len(own))
    assert part[kind]["parameters"] == sum(math.prod(t["shape"]) for t in own)
    assert part[kind]["bytes"] == sum(t["data_offsets"][1] - t["data_offsets"][0] for t in own)
    assert part[kind]["complete"] and part[kind]["checked"] and sum(part[kind]["types"].values()) == len(own)
assert found["tensors"] == len(header) and found["left_over"]["groups"] == []
assert part["text_encoder"]["encoders"][0]["width"] == 64 and part["denoiser"]["latent"]["channels"] == 4
P
verdict json_agrees_with_the_header $?
inspect 2 hole.safetensors --json && python3 -c 'import json; d = {p["kind"]: p for p in json.load(open("log"))["parts"]}["denoiser"]; assert not d["complete"] and "resnets.0.conv1" in d["problem"]'
verdict json_says_what_is_missing $?

# ---- tensors and metadata
inspect 0 whole.safetensors --tensors && [ "$(grep -c '^f16 .* first_stage_model' log)" -gt 200 ] && says '^[0-9]+ tensors, '; verdict the_list_of_tensors $?
python3 - <<'P'
import json, struct
notes = {"modelspec.title": "A LoRA", "ss_tag_frequency": "x" * 5000, "ss_network_dim": "8"}
header = {"__metadata__": notes, "lora_unet_mid.lora_up.weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
text = json.dumps(header).encode()
open("notes.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(4))
P
inspect 2 notes.safetensors && says 'modelspec.title: A LoRA$' 'ss_network_dim: 8$' 'ss_tag_frequency: x{100}\.\.\.$' && [ "$(wc -L <log)" -lt 200 ]; verdict metadata_is_shortened $?
"$kiln" inspect notes.safetensors --json >log 2>/dev/null; python3 -c 'import json; assert len(json.load(open("log"))["metadata"]["ss_tag_frequency"]) == 5000'
verdict metadata_whole_in_json $?

# ---- what is no checkpoint
head -c 5000 whole.safetensors >cut.safetensors; inspect 2 cut.safetensors && says 'kiln: error: cut.safetensors'; verdict a_damaged_file $?
inspect 2 "$KILN_ROOT/tests/golden/noise.safetensors" && says 'no loaded plugin knows any part of it' 'left over: '; verdict a_file_nobody_knows $?
printf 'PK\003\004 a pickle' >model.ckpt; inspect 2 model.ckpt && says 'a pickle file' 'weights_only=True' 'save_file'; verdict a_pickle_is_refused_with_the_remedy $?
inspect 2 there-is-none.safetensors && inspect 2; verdict nothing_to_inspect $?

# ---- a large one: holes where the numbers would be, of which none is read
python3 - "$KILN_ROOT/tests/bench/sd15" <<'P'
import json, math, struct, sys
names = dict(line.rstrip("\n").split("\t") for line in open(sys.argv[1] + "/single_file_names.txt"))
header, at = {}, 0
for line in open(sys.argv[1] + "/tensors.txt"):
    file, name, dims = line.split()
    shape = [int(d) for d in dims.split("x")]
    size = 4 * math.prod(shape)
    header[names[file.split("/")[0] + "/" + name]] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
    at += size
text = json.dumps(header).encode()
with open("large.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    f.truncate(8 + len(text) + at)
P
if command -v fincore >/dev/null; then
    inspect 0 large.safetensors && says '859,520,964' && [ "$(fincore -b -n -o RES large.safetensors)" -lt 8000000 ]; verdict only_headers_are_read $?
else echo "skip only_headers_are_read: no fincore here"; fi

exit $status
