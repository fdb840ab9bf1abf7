# test_tess_nodes.sh - TESS-2 and LLaDA's guidance in workflows: seeds, threads, the emulated device, given noise, a killed generation, what inspect says, bad use.
. "$KILN_ROOT/tests/cli/head.sh"
here="$PWD/tests/text_diffusion"
mkdir -p "$work/plugins" "$work/models/text_diffusion" "$work/input"
cp -R "$here/tess-tiny" "$here/llada-tiny" "$here/dg-tiny" "$work/models/text_diffusion/" && chmod -R u+w "$work/models"
cc -std=c11 -O1 -fPIC -fvisibility=hidden -ffp-contract=off -Iinclude -shared tests/strangers/goldens/golden_nodes.c -o "$work/plugins/goldens.so" -lm && chmod go-w "$work/plugins" "$work/plugins/goldens.so"
verdict the_test_nodes_build $?

run() { # NAME ARG...: $work/NAME.yaml, what is said into $work/log and $work/NAME.txt
    local name=$1; shift
    "$kiln" run "$work/$name.yaml" --precision f32 --plugins "$work/plugins" --models "$work/models" --input "$work/input" --out "$work/out" "$@" >"$work/$name.txt" 2>&1
    local got=$?
    cp "$work/$name.txt" "$work/log"
    return $got
}
line() { sed -n "s/^text $2 //p" "$work/$1.txt" | head -n 1; }
begin() { printf 'kiln: 1\nnodes:\n  model: {class_type: TextDiffusionLoader, inputs: {model: %s}}\n' "$1"; }
generate() { # NAME INPUTS
    echo "  $1: {class_type: TextDiffusionGenerate, inputs: {model: [model, 0], $2}}"
    echo "  text_$1: {class_type: TestText, inputs: {text: [$1, 0], name: $1}}"
}
noise_file() { # NAME CANVASES STEPS C WORDS: of zeros
    local draw=$((4 * $2 * $3 * $4)) all=$((4 * $2 * $3 * $4 * $5)) header
    header="{\"draw\": {\"dtype\": \"F32\", \"shape\": [$2, $3, $4], \"data_offsets\": [0, $draw]}, \"simplex\": {\"dtype\": \"F32\", \"shape\": [$2, $3, $4, $5], \"data_offsets\": [$draw, $((draw + all))]}}"
    { printf "\\$(printf %03o $((${#header} % 256)))\\$(printf %03o $((${#header} / 256)))\0\0\0\0\0\0%s" "$header"; head -c $((draw + all)) /dev/zero; } >"$work/input/$1.safetensors"
}

# a text, and what changes it
{
    begin tess-tiny
    generate one 'prompt: "a cat", length: 12, steps: 4, seed: 1, special: true'
    generate same 'prompt: " a cat ", length: 12, steps: 4, seed: 1, special: true, sampler: simplex, temperature: 1, top_p: 0.99'
    generate other 'prompt: "a cat", length: 12, steps: 4, seed: 2, special: true'
    generate told 'prompt: "a cat", system: "red", length: 12, steps: 4, seed: 1, special: true'
    generate narrow 'prompt: "a cat", length: 12, steps: 4, seed: 1, special: true, top_p: 0.05'
    generate cold 'prompt: "a cat", length: 12, steps: 4, seed: 1, special: true, temperature: 0'
    generate more 'prompt: "a cat", length: 12, steps: 5, seed: 1, special: true'
} >"$work/all.yaml"
run all --no-cache; verdict tess_writes $?
[ -n "$(line all one)" ] && [ "$(line all one)" = "$(line all same)" ]; verdict the_models_settings $?
for name in other told narrow cold more; do
    [ -n "$(line all $name)" ] && [ "$(line all one)" != "$(line all $name)" ]; verdict "${name}_writes_something_else" $?
done
cp "$work/all.yaml" "$work/threads.yaml"; run threads --no-cache --threads 1
[ "$(grep -a '^text ' "$work/threads.txt" | sort)" = "$(grep -a '^text ' "$work/all.txt" | sort)" ]; verdict the_same_text_for_any_threads $?
cp "$work/all.yaml" "$work/dry.yaml"; run dry --no-cache --dry-run && ! grep -q '^text ' "$work/dry.txt"; verdict a_dry_run_writes_nothing $?
emu=$(realpath "$KILN_BUILD/emu/kiln-cuda-emu.so" 2>/dev/null)
if [ -e "$emu" ]; then
    cp "$work/all.yaml" "$work/device.yaml"
    KILN_CUDA_LIBRARY=$emu KILN_EMU_REPORT=$work/report run device --no-cache --device cuda && grep -q '^faults 0 kernel_faults 0 ' "$work/report" &&
        [ "$(line device one)" = "$(line all one)" ] && [ "$(line device narrow)" = "$(line all narrow)" ]
    verdict the_same_text_on_a_device $?
fi

# noise that is given instead of a seed
noise_file zeros 1 3 12 300
given() { generate "$1" "noise: [noise, 0], prompt: \"a cat\", length: 12, steps: 3, special: true, seed: $2"; }
{ begin tess-tiny; echo '  noise: {class_type: TextDiffusionNoise, inputs: {file: zeros.safetensors}}'; given a 1; given b 2; } >"$work/noise.yaml"
run noise --no-cache && [ -n "$(line noise a)" ] && [ "$(line noise a)" = "$(line noise b)" ]; verdict given_noise_is_used $?
cp "$work/noise.yaml" "$work/dry_noise.yaml"; run dry_noise --no-cache --dry-run; verdict a_dry_run_with_given_noise $?

# killed, it goes on where it was
drafts() { grep -c '"event": "draft"' "$1" 2>/dev/null; }
{ begin tess-tiny; generate long 'prompt: "a cat", length: 12, canvases: 2, steps: 400, seed: 3, special: true'; } >"$work/long.yaml"
run long --no-cache --events "$work/long.events"; whole=$(line long long)
steps=$(drafts "$work/long.events")
for _ in 1 2 3 4 5; do
    rm -rf "$work/cut-cache" "$work/cut.events"
    "$kiln" run "$work/long.yaml" --precision f32 --plugins "$work/plugins" --models "$work/models" --out "$work/out" --cache "$work/cut-cache" --save-state 0.000001 \
        --events "$work/cut.events" >"$work/cut.txt" 2>&1 & pid=$!
    while kill -0 $pid 2>/dev/null; do
        seen=$(drafts "$work/cut.events"); [ "${seen:-0}" -lt 150 ] || break
        sleep 0.01
    done
    { kill -KILL $pid; wait $pid; } 2>/dev/null
    grep -q '^text long ' "$work/cut.txt" || break
done
run long --cache "$work/cut-cache" --events "$work/rest.events"
rest=$(drafts "$work/rest.events")
[ -n "$whole" ] && [ "$rest" -gt 0 ] && [ "$rest" -lt $((steps - 100)) ] && [ "$(line long long)" = "$whole" ]; verdict killed_it_goes_on $?

# LLaDA, guided by a masked prompt
{
    begin llada-tiny
    generate plain 'prompt: "a cat", canvases: 2, length: 16, steps: 4, special: true, cfg_scale: 0'
    generate guided 'prompt: "a cat", canvases: 2, length: 16, steps: 4, special: true, cfg_scale: 2'
} >"$work/guided.yaml"
run guided --no-cache && [ -n "$(line guided guided)" ] && [ "$(line guided guided)" != "$(line guided plain)" ]; verdict guidance_changes_a_text $?

# what inspect says
"$kiln" inspect "$work/models/text_diffusion/tess-tiny" >"$work/log" 2>&1 && grep -qF 'text diffusion: TESS-2 (family tess-2), complete' "$work/log"; verdict inspects_tess $?

# bad use
refused() { # NAME WORDS: $work/NAME.yaml is refused with these words
    run "$1" --no-cache; local got=$?
    [ $got -eq 1 ] && grep -qF -- "$2" "$work/$1.txt"; verdict "refuses_$1" $?
}
one() { begin "$1"; generate x "prompt: \"a\", $2"; }
one tess-tiny 'sampler: fixed' >"$work/fixed.yaml"; refused fixed "TESS-2 denoises a simplex; only the sampler 'simplex' does that"
one dg-tiny 'sampler: simplex' >"$work/simplex.yaml"; refused simplex "the sampler 'simplex' is TESS-2's; DiffusionGemma denoises tokens, which the others do"
one dg-tiny 'top_p: 0.9' >"$work/top_p.yaml"; refused top_p "'top_p' is of the sampler 'simplex'; DiffusionGemma draws from all words, so leave it at -1"
one dg-tiny 'top_p: 0' >"$work/top_p_0.yaml"; refused top_p_0 "'top_p' is of the sampler 'simplex'"
one tess-tiny 'cfg_scale: 2' >"$work/cfg.yaml"; refused cfg "TESS-2 was not made to be guided by a masked prompt; 'cfg_scale' has to be 0"
one tess-tiny 'thinking: true' >"$work/thoughts.yaml"; refused thoughts "TESS-2 has no thoughts"
one tess-tiny 'canvases: 9' >"$work/canvases.yaml"; refused canvases "9 canvases of 256 tokens behind"
with_noise() { begin "$1"; echo '  noise: {class_type: TextDiffusionNoise, inputs: {file: zeros.safetensors}}'; generate x "noise: [noise, 0], prompt: \"a\", $2"; }
with_noise tess-tiny 'length: 12, steps: 4' >"$work/few.yaml"; refused few "the noise has 1 canvases of 3 steps; canvas 1, step 4 is wanted"
with_noise tess-tiny 'length: 8, steps: 3' >"$work/short.yaml"; refused short "the noise is for canvases of 12 tokens of 300 words, and this one has 8 of 300"
with_noise dg-tiny 'steps: 3' >"$work/tokens.yaml"; refused tokens "the noise's 'start' is no i32 tensor"
noise_file words 1 3 12 200
with_noise tess-tiny 'length: 12, steps: 3' | sed 's/zeros/words/' >"$work/words.yaml"; refused words "the noise is for canvases of 12 tokens of 200 words"
{ with_noise tess-tiny 'length: 12, steps: 3' | sed 's/zeros/nan/'; } >"$work/nan.yaml"
{ head -c -4 "$work/input/zeros.safetensors"; printf '\0\0\300\177'; } >"$work/input/nan.safetensors"; refused nan "the noise has a number that is not finite"
exit $status
