# test_embeddings.sh - textual inversion in prompts, end to end: an embedding of a word's own rows draws what the word draws, its contents are in
# the key, a text that comes over a wire may name one too, and what is missing or does not fit is said, by `kiln check` where it can be.
# shellcheck source=tests/cli/head.sh
. "$KILN_ROOT/tests/cli/head.sh"
models=$work/models
mkdir -p "$models/embeddings/sub"
ln -s "$PWD/workflows/models/"shapes-* "$models/"

# rows FILE [KEY TABLE TOKENIZER WORD...] ... -- : rows of embedding tables as a .safetensors file
rows() { python3 - "$@" <<'PY'
import json, struct, sys
out, rest = sys.argv[1], " ".join(sys.argv[2:]).split(" -- ")
tensors = {}
for part in rest:
    key, table, tokenizer, *words = part.split()
    vocab = json.load(open(f"{tokenizer}/vocab.json"))
    with open(f"{table}/model.safetensors", "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
        name = next(k for k in head if k.endswith("token_embedding.weight"))
        assert head[name]["dtype"] == "F16"
        width, begin = head[name]["shape"][1], head[name]["data_offsets"][0]
        data = b""
        for word in words:
            f.seek(8 + n + begin + vocab[word + "</w>"] * width * 2)
            data += f.read(width * 2)
    tensors[key] = ([len(words), width], data)
head, at = {}, 0
for key, (shape, data) in tensors.items():
    head[key] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + len(data)]}
    at += len(data)
text = json.dumps(head).encode()
with open(out, "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + b"".join(d for _, d in tensors.values()))
PY
}
sd1=workflows/models/shapes-sd1 xl=workflows/models/shapes-xl
rows "$models/embeddings/thing.safetensors" emb_params $sd1/text_encoder $sd1/tokenizer red circle
rows "$models/embeddings/sub/pair.safetensors" clip_l $xl/text_encoder $xl/tokenizer red circle -- clip_g $xl/text_encoder_2 $xl/tokenizer_2 red circle

# draw FILE.yaml [option ...]: $drawn is the picture
draw() { local file=$1; shift; drawn=$("$kiln" run "workflows/$file" --quiet --models "$models" --precision f32 --out "$work/out" "$@" 2>"$work/log"); }
try() { expect "$1" 2 "$2" "$kiln" check workflows/txt2img.yaml --models "$models" --set "prompt=$3"; }

# ---- it draws what the words draw
draw txt2img.yaml --no-cache --set steps=3 --set 'prompt=red circle above a blue square'; words=$(pixels "$drawn")
draw txt2img.yaml --no-cache --set steps=3 --set 'prompt=embedding:thing above a blue square'
same an_embedding_is_its_words "$(pixels "$drawn")" "$words"
draw txt2img.yaml --no-cache --set steps=3 --set 'prompt=(red circle:1.3) above'; words=$(pixels "$drawn")
draw txt2img.yaml --no-cache --set steps=3 --set 'prompt=(embedding:thing.safetensors:1.3) above'
same with_weights_too "$(pixels "$drawn")" "$words"
draw sdxl.yaml --no-cache --set steps=2 --set 'prompt=red circle above'; words=$(pixels "$drawn")
draw sdxl.yaml --no-cache --set steps=2 --set 'prompt=embedding:sub/pair above'
same sdxl_has_one_for_each_encoder "$(pixels "$drawn")" "$words"
expect it_is_estimated 0 "" "$kiln" run workflows/txt2img.yaml --models "$models" --dry-run --no-cache --set 'prompt=embedding:thing'

# ---- what it contains is in the key
kept() { draw txt2img.yaml --cache "$work/cache" --set steps=3 --set 'prompt=an embedding:thing'; }
kept; first=$(pixels "$drawn")
rows "$models/embeddings/other.safetensors" emb_params $sd1/text_encoder $sd1/tokenizer green star
mv "$models/embeddings/other.safetensors" "$models/embeddings/thing.safetensors"
kept
check another_file_is_another_picture [ "$(pixels "$drawn")" != "$first" ]
"$kiln" run workflows/txt2img.yaml --models "$models" --precision f32 --cache "$work/cache" --out "$work/out" --set steps=3 --set 'prompt=an embedding:thing' >"$work/stdout" 2>"$work/log"
check the_same_file_is_not_computed_again grep -q "decode (VAEDecode) from the cache" "$work/log"

# ---- texts over wires
cat >"$work/wired.yaml" <<'YAML'
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  a: {class_type: StringConcatenate, inputs: {string_a: embedding, string_b: thing, delimiter: ":"}}
  positive: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: [a, 0]}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 128, height: 128}}
  sampler: {class_type: KSampler, inputs: {model: [model, MODEL], positive: [positive, 0], negative: [positive, 0], latent_image: [empty, 0], seed: 1, steps: 2, cfg: 1, sampler_name: euler, scheduler: normal}}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: wired}}
YAML
sed 's/a: {class_type: StringC.*/a: {class_type: PrimitiveString, inputs: {value: "embedding:thing"}}/' "$work/wired.yaml" >"$work/constant.yaml"
wired() { drawn=$("$kiln" run "$work/$1.yaml" --quiet --models "$models" --cache "$work/$1" --out "$work/out" 2>"$work/log"); "$kiln" cache ls --json --cache "$work/$1" >"$work/ls"; }
wired wired; verdict a_made_text_names_an_embedding $?
made=$(pixels "$drawn")
check its_result_is_not_kept sh -c "! grep -q CLIPTextEncode '$work/ls'"
wired constant; verdict a_constant_does_too $?
check its_result_is_kept grep -q CLIPTextEncode "$work/ls"
same both_are_one_picture "$(pixels "$drawn")" "$made"
sed -i 's/string_b: thing/string_b: thong/' "$work/wired.yaml"
expect a_made_text_with_a_wrong_name 1 "no file 'thong' for embeddings; did you mean 'thing'?" "$kiln" run "$work/wired.yaml" --models "$models" --no-cache --out "$work/out"

# ---- what is wrong
try a_missing_one "input 'text': no file 'thin' for embeddings; did you mean 'thing'?" "a embedding:thin, b"
try outside_the_folder "leaves its folder" "embedding:../../x"
try nothing_named "no file is named" "embedding:"
printf 'PK\003\004' >"$models/embeddings/old.pt"
expect a_pickle 1 "convert it to .safetensors (kiln inspect FILE says how)" "$kiln" run workflows/txt2img.yaml --models "$models" --no-cache --out "$work/out" --set prompt=embedding:old
expect of_another_family 1 "embedding 'thing' has [2,96] for text encoder 'g', which takes rows of 112 numbers" "$kiln" run workflows/sdxl.yaml --models "$models" --no-cache --out "$work/out" --set prompt=embedding:thing
rows "$models/embeddings/wide.safetensors" anything $xl/text_encoder_2 $xl/tokenizer_2 red
expect of_another_width 1 "embedding 'wide' has [1,112] for text encoder 'l', which takes rows of 96 numbers" "$kiln" run workflows/txt2img.yaml --models "$models" --no-cache --out "$work/out" --set prompt=embedding:wide
# NAME ROWS: zeros, 96 wide
zeros() {
    header="{\"x\":{\"dtype\":\"F16\",\"shape\":[$2,96],\"data_offsets\":[0,$(($2 * 192))]}}"
    { printf "\\x$(printf %02x "${#header}")\0\0\0\0\0\0\0%s" "$header"; head -c "$(($2 * 192))" /dev/zero; } >"$models/embeddings/$1.safetensors"
}
for n in 0 5000; do
    zeros rows$n $n
    expect "of_${n}_rows" 1 "embedding 'rows$n' has $n rows for text encoder 'l'; 1 to 4096 are possible" "$kiln" run workflows/txt2img.yaml --models "$models" --no-cache --out "$work/out" --set prompt=embedding:rows$n
done
draw txt2img.yaml --no-cache --set steps=1 --set prompt=embedding:sub/pair; verdict the_l_of_a_pair_alone $?
head -c 40 "$models/embeddings/thing.safetensors" >"$models/embeddings/half.safetensors"
expect half_a_file 1 "half.safetensors" "$kiln" run workflows/txt2img.yaml --models "$models" --no-cache --out "$work/out" --set prompt=embedding:half
exit $status
