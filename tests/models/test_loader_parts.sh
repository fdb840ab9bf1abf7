# test_loader_parts.sh - checkpoints with parts missing: what is not in a file and not used is no fault, what is used is named with the loader that
# brings it, before anything runs; averaged weights (model_ema.*) in place of the last ones by choice; model folders by both of ComfyUI's names.
status=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
kiln="$KILN_ROOT/$KILN_BUILD/kiln" edit="$KILN_ROOT/tests/models/edit_tensors.py"
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH KILN_MODELS
. "$KILN_ROOT/tests/models/single_model.sh"
cd "$work" || exit 2
verdict() { if [ "$2" -eq 0 ]; then echo "ok $1"; else sed 's/^/  /' "$work/log" | tail -n 5 | cut -c 1-500; echo "FAIL $1"; status=1; fi; }

mkdir -p m/checkpoints m/unet m/clip m/vae
make_single m/checkpoints/whole.safetensors; verdict the_file_is_made $?
python3 "$edit" m/checkpoints/whole.safetensors m/checkpoints/unet.safetensors drop cond_stage_model. drop first_stage_model.
python3 "$edit" m/checkpoints/whole.safetensors m/checkpoints/refiner.safetensors drop first_stage_model.
python3 "$edit" m/checkpoints/whole.safetensors m/clip/text.safetensors drop model. drop first_stage_model.
python3 "$edit" m/checkpoints/whole.safetensors m/vae/vae.safetensors drop model. drop cond_stage_model.
cp m/checkpoints/unet.safetensors m/unet/denoiser.safetensors

# prompt CKPT MODEL CLIP VAE [EMA]: a picture; each of the three is [node, output]
prompt() {
    cat >p.json <<END
{"1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "$1"${5:+, \"ema\": $5}}},
 "2": {"class_type": "CLIPLoader", "inputs": {"clip_name": "text.safetensors", "type": "stable_diffusion"}},
 "3": {"class_type": "VAELoader", "inputs": {"vae_name": "vae.safetensors"}},
 "10": {"class_type": "UNETLoader", "inputs": {"unet_name": "denoiser.safetensors", "weight_dtype": "default"}},
 "4": {"class_type": "CLIPTextEncode", "inputs": {"clip": $3, "text": "a red circle"}},
 "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 64, "height": 64, "batch_size": 1}},
 "6": {"class_type": "KSampler", "inputs": {"model": $2, "positive": ["4", 0], "negative": ["4", 0], "latent_image": ["5", 0],
       "seed": 1, "steps": 2, "cfg": 1.0, "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0}},
 "7": {"class_type": "VAEDecode", "inputs": {"samples": ["6", 0], "vae": $4}},
 "8": {"class_type": "SaveImage", "inputs": {"images": ["7", 0], "filename_prefix": "p"}}}
END
}
draw() { # NAME: its pixels into NAME.png; without the workflow that the file carries
    rm -rf out; "$kiln" run p.json --models m --no-cache --out out >paths 2>log && python3 - out/p_00001_.png "$1.png" <<'P'
import struct, sys
data, at, pixels = open(sys.argv[1], "rb").read(), 8, b""
while at < len(data):
    n = struct.unpack(">I", data[at : at + 4])[0]
    pixels += data[at + 8 : at + 8 + n] if data[at + 4 : at + 8] in (b"IHDR", b"IDAT") else b""
    at += 12 + n
open(sys.argv[2], "wb").write(pixels)
P
}
own=("[\"1\", 0]" "[\"1\", 1]" "[\"1\", 2]")
prompt whole.safetensors "${own[@]}"; draw whole; verdict the_whole_file_draws $?
prompt refiner.safetensors "${own[0]}" "${own[1]}" '["3", 0]'; draw refiner && cmp whole.png refiner.png; verdict a_part_nobody_uses_may_be_missing $?
prompt unet.safetensors "${own[0]}" '["2", 0]' '["3", 0]'; draw unet && cmp whole.png unet.png; verdict a_denoiser_alone_will_do $?
prompt whole.safetensors '["10", 0]' '["2", 0]' '["3", 0]'; draw parts && cmp whole.png parts.png; verdict parts_from_unet_and_clip_folders $?

missing() { # NAME WORDS
    "$kiln" check p.json --models m >log 2>&1; [ $? -eq 2 ] && grep -q "$2" log; verdict "$1_by_check" $?
    draw none; [ $? -ne 0 ] && grep -q "$2" log && [ ! -e out/p_00001_.png ]; verdict "$1_by_run" $?
}
prompt refiner.safetensors "${own[@]}"
missing a_missing_autoencoder "refiner.safetensors: no loaded plugin knows an autoencoder in it, and VAE is used; load one with VAELoader"
prompt unet.safetensors "${own[0]}" "${own[1]}" '["3", 0]'
missing a_missing_text_encoder "unet.safetensors: no loaded plugin knows a text encoder in it, and CLIP is used; load one with CLIPLoader or DualCLIPLoader"
cp m/vae/vae.safetensors m/checkpoints/
prompt vae.safetensors "${own[0]}" '["2", 0]' "${own[2]}"
missing a_missing_denoiser "vae.safetensors: no loaded plugin knows a denoiser in it, and MODEL is used; load one with UNETLoader"

# Two nodes of one file are one call; what either takes is made. Rows that take different parts share a loader, and the second finds the part missing.
cat >two.json <<END
{"1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "refiner.safetensors"}},
 "2": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "refiner.safetensors"}},
$(sed -n '/"3":/,$p' p.json | sed 's/"clip": \["2", 0\]/"clip": ["2", 1]/; s/"vae": \["1", 2\]/"vae": ["3", 0]/')
END
cp two.json p.json; draw two && cmp whole.png two.png; verdict two_nodes_of_one_file $?

# ---- averaged weights
python3 "$edit" m/checkpoints/whole.safetensors m/checkpoints/ema.safetensors ema
python3 "$edit" m/checkpoints/whole.safetensors m/checkpoints/averaged.safetensors averaged
prompt averaged.safetensors "${own[@]}"; draw averaged && ! cmp -s averaged.png whole.png; verdict other_weights_draw_another_picture $?
prompt ema.safetensors "${own[@]}"; draw last && cmp last.png whole.png && ! grep -q 'not used' log; verdict averages_are_left_alone_by_default $?
prompt ema.safetensors "${own[@]}" true; draw ema && cmp ema.png averaged.png && ! grep -q 'not used' log; verdict averages_by_choice $?
prompt whole.safetensors "${own[@]}" true; draw none; [ $? -ne 0 ] && grep -q "whole.safetensors: there are no averaged weights (model_ema.\*) in it; set ema to false" log
verdict no_averages_to_take $?
exit $status
