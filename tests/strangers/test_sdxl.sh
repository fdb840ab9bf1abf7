# test_sdxl.sh - SDXL from outside the tree: tests/strangers/sdxl/, built against an installed kiln and nothing else. Two text encoders, numbers embedded
# beside the time, and a refiner that goes on from a noise level, each against what diffusers and transformers compute (sdxl/make_goldens.py) to 1e-5;
# then bad use, a run that is killed, and a budget that holds one of the two networks.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
here="$KILN_ROOT/tests/strangers/sdxl"
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else echo "FAIL $1"; status=1; fi
}
unset MAKEFLAGS MFLAGS MAKELEVEL KILN_PLUGIN_PATH KILN_MEMORY
prefix="$work/usr"
make -s -C "$KILN_ROOT" install NVCC= PREFIX="$prefix" DEBUG="$(case $KILN_BUILD in *debug*) echo 1 ;; esac)" \
    SAN="$(case $KILN_BUILD in *-undefined-address) echo undefined,address ;; *-address) echo address ;; *-undefined) echo undefined ;; *-thread) echo thread ;; esac)" >"$work/install.txt" 2>&1
result=$?; [ $result -eq 0 ] || tail -n 5 "$work/install.txt"
verdict install $result; [ $result -eq 0 ] || exit 1
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" XDG_CACHE_HOME="$work/xdg"
kiln="$prefix/bin/kiln"
cd "$work" || exit 2

# ---- a plugin of five files, and its models: configurations from the tree, weights from a formula
mkdir plugins && cp "$here"/*.c "$here"/*.h . && rm random_weights.c &&
    cc -O2 -Wall -Wextra -Werror -std=c11 -fPIC -fvisibility=hidden -ffp-contract=off $(pkg-config --cflags kiln) -shared -Wl,-z,now ./*.c \
        -o plugins/sdxl.so -ljansson -lm && chmod go-w plugins/sdxl.so
verdict builds_against_the_installed_headers $?
[ -z "$(readelf -d plugins/sdxl.so | grep NEEDED | grep -vE 'lib(c|m|jansson)\.')" ]; verdict it_links_nothing_of_kilns $?
cc -O2 -Wall -Wextra -Werror -std=c11 -D_GNU_SOURCE "$here/random_weights.c" -o random_weights -lm && cp -r "$here/models" . && chmod -R u+w models &&
    ./random_weights "$here/shapes.txt" models && cp -r models/base/text_encoder_2 models/refiner/
verdict the_models_are_made $?
cc -O1 -w -std=c11 "$KILN_ROOT/plugins/examples/sampling.c" -fPIC -ffp-contract=off -I"$prefix/include" -shared -o plugins/sampling.so -lm && chmod go-w plugins/sampling.so

run() { # OUT WORKFLOW ARG...: quiet where all is well
    local out=$1 file=$2; shift 2
    "$kiln" run "$file" -q --precision f32 --plugins plugins --models models --out "$out" "$@" >"$out.txt" 2>&1 || { cat "$out.txt"; return 1; }
}
sampler() { # NAME MODEL POSITIVE NEGATIVE LATENT STEPS [CFG]
    echo "  $1: {class_type: KSampler, inputs: {model: [$2, MODEL], positive: [$3, 0], negative: [$4, 0], latent_image: [$5, 0], seed: 7, steps: $6, cfg: ${7:-4.0}, sampler_name: euler, scheduler: karras}}"
}
dump() { for name in "$@"; do echo "  dump_$name: {class_type: SdxlDump, inputs: {what: [$name, 0], name: $name}}"; done; }
tensor() { echo "  dump_$1_$2: {class_type: SdxlDump, inputs: {what: [$1, 0], key: $2, name: $1_$2}}"; } # CONDITIONING KEY

# ---- against diffusers
cat >far.py <<'P'
"""far.py GOT WANTED: max |a - b| / max |b| of two files of f32; 0 when it is 1e-5 at most."""
import array
import sys

def read(path):
    numbers = array.array("f")
    with open(path, "rb") as f:
        numbers.frombytes(f.read())
    return numbers

got, wanted = read(sys.argv[1]), read(sys.argv[2])
if len(got) != len(wanted) or not wanted:
    sys.exit(f"{len(got)} numbers, {len(wanted)} wanted")
far = max(abs(a - b) for a, b in zip(got, wanted)) / max(map(abs, wanted))
print(f"# {sys.argv[1]}: {far:.1e} from what is wanted")
sys.exit(not far <= 1e-5)
P
golden() { # OUT NAME
    python3 far.py "$1/$2_00001_.f32" "$here/goldens/$2.f32"; verdict "$2_is_diffusers" $?
}
words() { seq -f 'word%g' -s ' ' 0 99; } # more than a chunk of 77 tokens holds
{
    cat "$here/parts.yaml"
    tensor yes tokens; tensor yes pooled
    echo "  long: {class_type: SdxlTextEncode, inputs: {clip: [load, CLIP], text_g: short one, text_l: '$(words)'}}"
    tensor long tokens; tensor long pooled
    sampler base load yes no empty 1 1.0; sampler refiner refiner_unet fine poor empty 1 1.0
    sampler both model positive negative empty 6
    echo '  plain_yes: {class_type: CLIPTextEncode, inputs: {clip: [load, CLIP], text: a red circle}}'
    sampler plain load plain_yes no empty 2
    dump base refiner both plain
    echo '  decoded: {class_type: VAEDecode, inputs: {samples: [both, 0], vae: [load, VAE]}}'
    echo '  saved: {class_type: SaveImage, inputs: {images: [decoded, 0], filename_prefix: picture}}'
} >goldens.yaml
run out goldens.yaml --no-cache --trace trace && [ -s out/picture_00001_.png ]; verdict draws $?
for name in yes_tokens yes_pooled long_tokens long_pooled base refiner both plain; do golden out $name; done

# How often a network ran: its first convolution, in the trace.
runs() { grep -c '"name": "conv2d".*denoiser/input\.0 ' "$1"; }
[ "$(runs trace)" -eq 10 ]; verdict both_guesses_are_one_batch $? # 1, 1, 6 and 2 steps

# A prompt of two chunks against one of one chunk: base repeats the shorter (KILN_BATCH_REPEAT), the refiner evaluates them apart.
{
    cat "$here/parts.yaml"
    echo "  long_yes: {class_type: SdxlTextEncode, inputs: {clip: [load, CLIP], text_g: short one, text_l: '$(words)', height: 832, width: 1216, crop_h: 4, crop_w: 8, target_height: 640, target_width: 512}}"
    echo '  wide: {class_type: EmptyLatentImage, inputs: {width: 192, height: 128}}'
    sampler long load long_yes no wide 4; dump long
} >long.yaml
run out long.yaml --no-cache --trace trace; golden out long; [ "$(runs trace)" -eq 4 ]; verdict the_shorter_prompt_is_repeated $?
{
    cat "$here/parts.yaml"
    echo "  long_yes: {class_type: SdxlRefinerTextEncode, inputs: {clip: [refiner_clip, CLIP], text: '$(words)'}}"
    sampler apart refiner_unet long_yes poor empty 2; dump apart
} >apart.yaml
run out apart.yaml --no-cache --trace trace; golden out apart; [ "$(runs trace)" -eq 4 ]; verdict prompts_that_do_not_go_together_are_apart $?

# Two pictures; a prompt for a part of them, another for the base than for the refiner.
{
    cat "$here/parts.yaml"
    echo '  two: {class_type: EmptyLatentImage, inputs: {width: 128, height: 128, batch_size: 2}}'
    echo '  green: {class_type: SdxlTextEncode, inputs: {clip: [load, CLIP], text_g: a green field, text_l: a green field}}'
    echo '  lower: {class_type: ConditioningSetArea, inputs: {conditioning: [green, 0], width: 96, height: 64, x: 32, y: 64, strength: 1.0}}'
    echo '  lower_base: {class_type: SdxlBindRange, inputs: {conditioning: [lower, 0], range: base}}'
    echo '  red: {class_type: SdxlRefinerTextEncode, inputs: {clip: [refiner_clip, CLIP], text: a red corner}}'
    echo '  corner: {class_type: ConditioningSetArea, inputs: {conditioning: [red, 0], width: 64, height: 64, x: 0, y: 0, strength: 1.0}}'
    echo '  corner_refiner: {class_type: SdxlBindRange, inputs: {conditioning: [corner, 0], range: refiner}}'
    echo '  parts: {class_type: ConditioningCombine, inputs: {conditioning_1: [lower_base, 0], conditioning_2: [corner_refiner, 0]}}'
    echo '  all: {class_type: ConditioningCombine, inputs: {conditioning_1: [positive, 0], conditioning_2: [parts, 0]}}'
    sampler batch model all negative two 4; dump batch
} >batch.yaml
run out batch.yaml --no-cache; golden out batch

# Tiles: of the whole picture the same bytes as without; smaller ones as the formula says, refiner and all.
custom() { # NAME CLASS REST
    echo "  $1: {class_type: $2, inputs: {noise: [noise, 0], guider: [guider, 0], sampler: [how, 0], sigmas: [levels, 0], latent_image: [empty, 0]$3}}"
}
{
    cat "$here/parts.yaml"
    echo '  noise: {class_type: RandomNoise, inputs: {noise_seed: 7}}'
    echo '  how: {class_type: KSamplerSelect, inputs: {sampler_name: euler}}'
    echo '  levels: {class_type: BasicScheduler, inputs: {model: [model, MODEL], scheduler: karras, steps: 4}}'
    echo '  guider: {class_type: CFGGuider, inputs: {model: [model, MODEL], positive: [positive, 0], negative: [negative, 0], cfg: 4.0}}'
    custom own SamplerCustomAdvanced; custom whole ExampleTiledSampler ', tile: 64, overlap: 8'; custom tiles ExampleTiledSampler ', tile: 8, overlap: 4'
    sampler plain model positive negative empty 4
    dump own whole tiles plain
} >tiles.yaml
run tiles tiles.yaml --no-cache
cmp tiles/own_00001_.f32 tiles/plain_00001_.f32 && cmp tiles/whole_00001_.f32 tiles/plain_00001_.f32; verdict one_tile_and_KSampler_are_the_custom_sampler $?
golden tiles tiles

# Without its refiner the base leaves out what is for the refiner.
{
    cat "$here/parts.yaml"
    sampler alone load positive negative empty 3; sampler plain load yes no empty 3; dump alone plain
} >alone.yaml
run alone alone.yaml --no-cache; cmp alone/alone_00001_.f32 alone/plain_00001_.f32; verdict the_base_alone_leaves_the_refiners_entries_out $?

# ---- before a run: what it needs, of both networks
{ cat "$here/parts.yaml"; sampler both model positive negative empty 6; dump both; } >both.yaml
run explained both.yaml --no-cache --explain && ! grep -E '^(yes|no|fine|poor|both) .*\?' explained.txt && grep -q "least that works ('denoiser')" explained.txt && [ ! -e explained ]
verdict explain_tells_of_both $?
run dry both.yaml --no-cache --dry-run && grep -qE '^both .*run .*MB' dry.txt && [ ! -e dry ]; verdict dry_run_tells_of_both $?

# ---- a budget that holds one network: the other's weights go and come
whole=$(sed -n 's/^memory: \([0-9.]*\) MB holds.*/\1/p' explained.txt) least=$(sed -n 's/.*; \([0-9.]*\) MB is the least that works.*/\1/p' explained.txt)
echo "# $whole MB hold what one program needs, $least MB are the least"
"$kiln" run both.yaml -v --precision f32 --plugins plugins --models models --out small --no-cache --memory "$(awk "BEGIN { print int($least) + 1 }")M" >small.txt 2>&1 &&
    cmp small/both_00001_.f32 out/both_00001_.f32
result=$?; [ $result -eq 0 ] || tail -n 3 small.txt
verdict a_small_budget_gives_the_same_bytes $result
# Weights of two networks, one after the other: more was made ready than the budget ever held.
sed -n 's/^memory budget.*held at most \([0-9.]*\) MB; \([0-9.]*\) MB of weights were made ready.*/\1 \2/p' small.txt |
    awk '{ ok = $1 <= '"$least"' + 1.01 && $2 > 2 * $1 } END { exit !ok }'
verdict the_budget_was_kept $?
run tiny both.yaml --no-cache --memory 3M >/dev/null; [ $? -ne 0 ] && grep -q 'too small for this workflow' tiny.txt; verdict a_budget_below_one_network_is_refused $?

# ---- killed, at the base's levels and at the refiner's, and gone on with
{ cat "$here/parts.yaml"; sampler both model positive negative empty 120; dump both; } >longer.yaml
run undisturbed longer.yaml --no-cache
steps() { sed -n 's/.*"what": "step", "done": \([0-9]*\).*/\1/p' events | sed -n "$1"; }
killed_and_resumed() { # AFTER: a step
    local pid begun
    for _ in 1 2 3 4 5; do
        rm -rf cache cut events
        "$kiln" run longer.yaml -q --precision f32 --plugins plugins --models models --out cut --cache cache --save-state 0.000001 --events events >/dev/null 2>&1 & pid=$!
        for _ in $(seq 2000); do [ "$(steps '$p')" -ge "$1" ] 2>/dev/null && break; sleep 0.005; done
        kill -KILL $pid 2>/dev/null; wait $pid 2>/dev/null
        [ -e cut ] && [ -n "$(find cut -name '*.f32')" ] || break # not killed in time: again
    done
    run rest longer.yaml --cache cache --events events || return 1
    begun=$(steps 1p)
    echo "# gone on at step ${begun:-?}"
    [ "${begun:-0}" -ge "$1" ] && cmp undisturbed/both_00001_.f32 rest/both_00001_.f32; result=$?
    rm -rf rest; return $result
}
killed_and_resumed 10 2>/dev/null; verdict killed_in_the_base_it_goes_on $?
killed_and_resumed 80 2>/dev/null; verdict killed_in_the_refiner_it_goes_on $?

# ---- kept results: the boundary and the refiner's weights are part of the key
computed() { # ARG...: the sampler, if it was computed
    run kept both.yaml --cache kept-cache --events kept-events "$@" || return 1
    sed -nE 's/.*"node_done".*"node": "(both)".*"from": "computed".*/\1/p' kept-events
}
first=$(computed) second=$(computed) third=$(computed --set model.start=0.55)
cp models/refiner/unet/diffusion_pytorch_model.safetensors whole && printf '\0' | dd of=models/refiner/unet/diffusion_pytorch_model.safetensors bs=1 seek="$(($(stat -c %s whole) - 2))" conv=notrunc 2>/dev/null
fourth=$(computed); mv whole models/refiner/unet/diffusion_pytorch_model.safetensors
[ "$first $second $third $fourth" = 'both  both both' ]; verdict another_boundary_or_refiner_is_another_result $?

# ---- on a device, where there is an emulated one
emu=$(realpath "$KILN_ROOT/$KILN_BUILD/emu/kiln-cuda-emu.so" 2>/dev/null)
if [ -e "$emu" ]; then
    { sed 's/width: 128, height: 128/width: 64, height: 64/' "$here/parts.yaml"; sampler both model positive negative empty 2; dump both; } >device.yaml
    KILN_CUDA_LIBRARY=$emu KILN_EMU_REPORT=report run device device.yaml --no-cache --device cuda && grep -q '^faults 0 kernel_faults 0 ' report
    verdict both_on_the_emulated_device $?
    run host device.yaml --no-cache --device cpu && python3 far.py device/both_00001_.f32 host/both_00001_.f32; verdict the_devices_numbers_are_the_hosts $?
fi

# ---- bad use: a sentence with node, input and remedy, and exit status 1
refused() { # NAME WORDS...: standard input is what follows parts.yaml
    local name=$1 word result=0; shift
    { cat "$here/parts.yaml"; cat; } >bad.yaml
    "$kiln" run bad.yaml -q --precision f32 --plugins plugins --models "models:$KILN_ROOT/workflows/models" --out bad --no-cache >bad.txt 2>&1
    [ $? -eq 1 ] || result=1
    for word in "$@"; do grep -qF -- "$word" bad.txt || { echo "  not said: $word"; result=1; }; done
    [ $result -eq 0 ] || sed 's/^/  /' bad.txt
    verdict "$name" $result
}
{ echo '  scoreless: {class_type: CLIPTextEncode, inputs: {clip: [refiner_clip, CLIP], text: a red circle}}'
  sampler bad refiner_unet scoreless poor empty 2; dump bad; } |
    refused a_missing_number_is_named bad KSampler positive "'aesthetic_score'" '6 for what the picture should be like' 'put a node that sets it before the sampler'
{ sampler bad refiner_unet yes poor empty 2; dump bad; } |
    refused tokens_of_another_width_are_named bad positive 'tokens are 96 wide' 'wants 64' 'CLIP of the model'
{ sampler bad model yes_refiner negative empty 2; dump bad; } |
    refused entries_all_for_another_range_are_named bad positive "for another range of the model, none for 'base'"
{ sampler bad model positive no_base empty 2; dump bad; } |
    refused entries_all_for_the_first_range_are_named bad negative "for another range of the model, none for 'refiner'"
{ echo '  bad: {class_type: SdxlTextEncode, inputs: {clip: [refiner_clip, CLIP], text_g: a, text_l: b}}'; tensor bad tokens; } |
    refused a_prompt_for_an_encoder_that_is_not_there bad "'l'" 'this CLIP has g' 'CLIPTextEncode'
{ echo '  bad: {class_type: SdxlRefine, inputs: {model: [model, MODEL], refiner: [refiner_unet, MODEL]}}'
  sampler sampled bad positive negative empty 2; dump sampled; } | refused a_second_refiner_is_refused bad 'has a refiner already'
{ echo '  twice: {class_type: SdxlRefine, inputs: {model: [load, MODEL], refiner: [model, MODEL]}}'
  sampler bad twice positive negative empty 2; dump bad; } | refused a_refiner_with_a_refiner_is_refused bad "'refiner' of a MODEL has ranges of its own" 'without'
{ echo '  bad: {class_type: CLIPSetLastLayer, inputs: {clip: [load, CLIP], stop_at_clip_layer: -9}}'
  echo '  text: {class_type: CLIPTextEncode, inputs: {clip: [bad, CLIP], text: a}}'; tensor text tokens; } | refused a_layer_that_is_not_there bad 'has 3 layers; say -3 to -1'

{ echo '  other: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}'
  echo '  mixed: {class_type: SdxlRefine, inputs: {model: [load, MODEL], refiner: [other, MODEL]}}'
  sampler bad mixed positive negative empty 2; dump bad; } |
    refused a_refiner_of_other_latents_is_refused bad 'refiner has latents scaled by 0.18215' 'model by 0.13025' 'of the same family'

# A checkpoint whose configuration does not fit its tensors.
mv models/base/unet/config.json config.json && tr -d '\n' <config.json | sed 's/"attention_head_dim": *\[[^]]*\]/"attention_head_dim": [3, 4]/' >models/base/unet/config.json
{ sampler bad load yes no empty 2; dump bad; } | refused heads_that_do_not_divide_are_named load 'unet/config.json: level 0 has 32 channels, no multiple of 3 heads'
mv config.json models/base/unet/config.json

# A key that no model wants is said, once, whatever the number of conditionings and models that look at it.
{ cat "$here/parts.yaml"; echo '  scored: {class_type: SdxlRefinerTextEncode, inputs: {clip: [load, CLIP], text: a, aesthetic_score: 6}}'
  echo '  twice: {class_type: SdxlRefine, inputs: {model: [load, MODEL], refiner: [load, MODEL]}}'
  sampler said twice scored scored empty 2; dump said; } >said.yaml
"$kiln" run said.yaml --precision f32 --plugins plugins --models models --out said --no-cache >said.txt 2>&1
[ "$(grep -c "'aesthetic_score' is used by nothing: the model (example-sdxl" said.txt)" -eq 1 ] && [ "$(grep -c 'is used by nothing' said.txt)" -eq 1 ]
result=$?; [ $result -eq 0 ] || cat said.txt
verdict a_key_that_nothing_wants_is_said_once $result
"$kiln" run both.yaml --precision f32 --plugins plugins --models models --out all --no-cache >all.txt 2>&1 && ! grep -q 'warning.*used by' all.txt; verdict nothing_is_said_without_need $?
exit $status
