# test_loader_choices.sh - the loaders know the choices that ComfyUI's workflows name; one that kiln cannot do yet is refused by name before
# anything runs, by check and by run.
cd "$KILN_ROOT" || exit 2
case $KILN_BUILD in /*) kiln=$KILN_BUILD/kiln ;; *) kiln=$PWD/$KILN_BUILD/kiln ;; esac
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache"
status=0
verdict() { if [ "$2" -eq 0 ]; then echo "ok $1"; else sed 's/^/  /' "$work/log"; echo "FAIL $1"; status=1; fi; }

types=stable_diffusion,stable_cascade,sd3,stable_audio,mochi,ltxv,pixart,cosmos,lumina2,wan,hidream,chroma,ace,omnigen2,qwen_image,hunyuan_image,flux2,ovis
types+=,longcat_image,cogvideox,lens,pixeldit,ideogram4,boogu,krea2,joyimage,mage,minimax
dtypes=default,fp8_e4m3fn,fp8_e4m3fn_fast,fp8_e5m2
said() { "$kiln" nodes "$1" 2>"$work/log" | sed -n "s/^  $2 *one of \(.*\); default.*/\1/p" | tr -d ' '; }
[ "$(said CLIPLoader type)" = "$types" ]; verdict the_types_of_CLIPLoader $?
[ "$(said UNETLoader weight_dtype)" = "$dtypes" ]; verdict the_types_of_UNETLoader $?

prompt() { # TYPE DTYPE
    cat >"$work/p.json" <<END
{"1": {"class_type": "CLIPLoader", "inputs": {"clip_name": "tiny-sd1", "type": "$1"}},
 "2": {"class_type": "UNETLoader", "inputs": {"unet_name": "tiny-sd1", "weight_dtype": "$2"}},
 "3": {"class_type": "VAELoader", "inputs": {"vae_name": "tiny-sd1"}},
 "4": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["1", 0], "text": "a red circle"}},
 "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 64, "height": 64, "batch_size": 1}},
 "6": {"class_type": "KSampler", "inputs": {"model": ["2", 0], "positive": ["4", 0], "negative": ["4", 0], "latent_image": ["5", 0],
       "seed": 1, "steps": 1, "cfg": 1.0, "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0}},
 "7": {"class_type": "VAEDecode", "inputs": {"samples": ["6", 0], "vae": ["3", 0]}},
 "8": {"class_type": "SaveImage", "inputs": {"images": ["7", 0], "filename_prefix": "p"}}}
END
}
draw() { "$kiln" run "$work/p.json" --models tests/golden --no-cache --out "$work/out" >"$work/paths" 2>"$work/log"; }

prompt stable_diffusion default
draw; verdict what_can_be_done_is_done $?
rm -rf "$work/out"
refused() { # NAME PART
    "$kiln" check "$work/p.json" --models tests/golden >"$work/log" 2>&1; [ $? -eq 2 ] && grep -qF "$2" "$work/log"; verdict "$1_by_check" $?
    draw; [ $? -eq 2 ] && grep -qF "$2" "$work/log" && [ ! -e "$work/out/p_00001_.png" ]; verdict "$1_by_run" $?
}
prompt sd3 default; refused a_type_that_is_not_there "type 'sd3' is the text encoder of a model that kiln does not read yet"
prompt stable_diffusion fp8_e5m2; refused a_dtype_that_is_not_there "weight_dtype 'fp8_e5m2' means rounding weights to 8 bits, which kiln does not"
prompt sd33 default; refused a_type_that_nobody_knows "sd33"
exit $status
