# test_vision_nodes.sh - CLIPVisionLoader, CLIPVisionEncode and unCLIPCheckpointLoader in workflows: a tiny encoder held against transformers, what is
# computed when, what `kiln inspect` says, and bad use.
. "$KILN_ROOT/tests/cli/head.sh"
. "$KILN_ROOT/tests/vision/vision_workflows.sh"
golden_plugin; verdict the_test_nodes_build $?
workflow() { # NAME; further nodes on standard input
    { cat <<END
kiln: 1
nodes:
  vision: {class_type: CLIPVisionLoader, inputs: {clip_name: tiny}}
  small: {class_type: LoadImage, inputs: {image: small.png}}
  wide: {class_type: LoadImage, inputs: {image: wide.png}}
END
      cat; } >"$work/$1.yaml"
}
encode() { echo "  $1: {class_type: CLIPVisionEncode, inputs: {clip_vision: [${4:-vision}, CLIP_VISION], image: [$2, 0]${3:+, crop: $3}}}"; } # NAME IMAGE [CROP [VISION]]
golden() { echo "  golden_$1: {class_type: TestGolden, inputs: {value: [$1, 0], file: ${3:-goldens}.safetensors, name: golden.${2:-$1}}}"; } # NAME [GOLDEN [FILE]]

# ---- against transformers: 32 x 32 pixels are looked at as they are, whatever the crop
{ encode e_center small center; golden e_center small; encode e_none small none; golden e_none small; encode e_default small; golden e_default small; } | workflow square
run square --no-cache; verdict a_square_is_encoded $?
same a_square_equals_transformers "$(as_golden_times square small)" 3
{ encode e_wide wide center; golden e_wide small; encode e_squeezed wide none; golden e_squeezed small; } | workflow wide
run wide --no-cache; verdict a_wide_picture_is_encoded $?
same other_pictures_are_others "$(as_golden_times wide small)" 0
same a_crop_is_not_the_whole "$(sed -n 's/^golden golden.small //p' "$work/wide.txt" | sort -u | wc -l)" 2

# ---- of several pictures each has the numbers that it has alone
python3 -I tests/vision/edit_vision.py stack "$proof/goldens.safetensors" golden.small golden.small golden.pair "$work/pair.safetensors"; verdict a_pair_is_made $?
{ echo '  both: {class_type: ImageBatch, inputs: {image1: [small, 0], image2: [small, 0]}}'; encode e_both both; golden e_both pair pair; } | workflow batch
run batch --no-cache; verdict several_pictures_are_encoded $?
same each_as_it_is_alone "$(as_golden_times batch pair)" 1

# ---- kept and looked at
{ encode e_wide wide center; golden e_wide small; } | workflow kept
run kept --cache "$work/cache" --trace "$work/first.trace" && run kept --cache "$work/cache" --trace "$work/kept.trace"; verdict it_runs_twice $?
check it_is_computed_at_first grep -q '"name": "attention"' "$work/first.trace"
same the_second_time_it_is_not "$(grep -c '"name": "attention"' "$work/kept.trace")" 0
run kept --no-cache --explain; check explain_counts_the_encoder grep -qE '^e_wide +CLIPVisionEncode .*[0-9]$' "$work/kept.txt"
expect inspect_names_it 0 "CLIP vision, 2 layers of 16 (family clip-vision), complete" "$kiln" inspect "$proof/models/clip_vision/tiny"

# ---- unCLIPCheckpointLoader: four parts of one folder; what is not there is missed only where it is used
mkdir -p "$work/models/checkpoints/unclip/image_encoder" "$work/models/checkpoints/plain" "$work/models/clip_vision/other"
cp -r tests/golden/tiny-sd1/. "$work/models/checkpoints/unclip/" && cp -r tests/golden/tiny-sd1/. "$work/models/checkpoints/plain/" && cp -r tests/golden/tiny-sd1/vae/. "$work/models/clip_vision/other/" &&
    cp "$proof"/models/clip_vision/tiny/{config.json,model.safetensors} "$work/models/checkpoints/unclip/image_encoder/"
draw() { # CHECKPOINT
    cat <<END
  whole: {class_type: unCLIPCheckpointLoader, inputs: {ckpt_name: $1}}
  text: {class_type: CLIPTextEncode, inputs: {clip: [whole, CLIP], text: a}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  drawn: {class_type: KSampler, inputs: {model: [whole, MODEL], positive: [text, 0], negative: [text, 0], latent_image: [empty, 0], seed: 1, steps: 1, cfg: 1.0, sampler_name: euler, scheduler: normal}}
  picture: {class_type: VAEDecode, inputs: {samples: [drawn, 0], vae: [whole, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [picture, 0]}}
END
}
{ draw unclip; encode e_whole small center whole; golden e_whole small; } | workflow unclip
run unclip --no-cache; verdict four_parts_of_one_checkpoint $?
same its_encoder_is_the_encoder "$(as_golden_times unclip small)" 1
draw plain | workflow plain
run plain --no-cache; verdict a_part_that_nobody_takes_may_be_missing $?

# ---- bad use
refused() { # NAME WORDS; further nodes on standard input
    workflow "$1"
    expect "$1" 1 "$2" "$kiln" run "$work/$1.yaml" --precision f32 --no-cache --plugins "$work/plugins" --models "$proof/models:$work/models" --input "$proof:$proof/input:$work" --out "$work/out"
}
with_encoder() { echo "  other: {class_type: CLIPVisionLoader, inputs: {clip_name: $1}}"; encode e small center other; golden e small; }
{ draw plain; encode e small center whole; golden e small; } | refused no_encoder_in_the_checkpoint "no loaded plugin knows a vision encoder in it, and CLIP_VISION is used; load one with CLIPVisionLoader"
with_encoder other | refused no_encoder_in_the_file "no loaded plugin knows a vision encoder in it"
head -c 5000 "$proof/models/clip_vision/tiny/model.safetensors" >"$work/models/clip_vision/short.safetensors"
with_encoder short.safetensors | refused a_truncated_file "short.safetensors"
printf 'PK\003\004 pickle' >"$work/models/clip_vision/pytorch_model.bin"
with_encoder pytorch_model.bin | refused a_pickle "pickle"
mkdir -p "$work/models/clip_vision/damaged" && cp "$proof/models/clip_vision/tiny/config.json" "$work/models/clip_vision/damaged/" &&
    python3 -I tests/vision/edit_vision.py without "$proof/models/clip_vision/tiny/model.safetensors" vision_model.encoder.layers.1.mlp.fc1.bias "$work/models/clip_vision/damaged/model.safetensors"
with_encoder damaged | refused a_tensor_is_missing "no tensor 'vision_model.encoder.layers.1.mlp.fc1.bias'"
python3 -I tests/vision/edit_vision.py zeros grey 1,8,8,1 "$work/grey.safetensors"
{ echo '  grey: {class_type: TestImage, inputs: {file: grey.safetensors, name: grey}}'; encode e grey; golden e small; } | refused a_picture_of_one_channel "output 'IMAGE'"
exit $status
