# test_text_nodes.sh - text diffusion in workflows: a prompt is read once, in this process or another; a killed generation goes on; drafts as events;
# estimates; the same text for any number of threads and over the emulated device; bad use. make_dg_tiny.py makes the model.
. "$KILN_ROOT/tests/cli/head.sh"
here="$PWD/tests/text_diffusion"
mkdir -p "$work/plugins" "$work/models/text_diffusion"
cp -R "$here/dg-tiny" "$work/models/text_diffusion/" && chmod -R u+w "$work/models"
cc -std=c11 -O1 -fPIC -fvisibility=hidden -ffp-contract=off -Iinclude -shared tests/strangers/goldens/golden_nodes.c -o "$work/plugins/goldens.so" -lm && chmod go-w "$work/plugins" "$work/plugins/goldens.so"
verdict the_test_nodes_build $?

run() { # NAME ARG...: $work/NAME.yaml, what is said into $work/log and $work/NAME.txt
    local name=$1; shift
    "$kiln" run "$work/$name.yaml" --precision f32 --plugins "$work/plugins" --models "$work/models" --input "$here" --out "$work/out" "$@" >"$work/$name.txt" 2>&1
    local got=$?
    cp "$work/$name.txt" "$work/log"
    return $got
}
line() { sed -n "s/^text $2 //p" "$work/$1.txt" | head -n 1; }
begin() { printf 'kiln: 1\nnodes:\n  model: {class_type: TextDiffusionLoader, inputs: {model: dg-tiny}}\n'; }
generate() { # NAME INPUTS
    echo "  $1: {class_type: TextDiffusionGenerate, inputs: {model: [model, 0], $2}}"
    echo "  text_$1: {class_type: TestText, inputs: {text: [$1, 0], name: $1}}"
}

# a text, and what changes it
{
    begin
    generate one 'prompt: "two shapes", canvases: 2, steps: 3, seed: 1'
    generate same 'prompt: " two shapes ", canvases: 2, steps: 3, seed: 1'
    generate other 'prompt: "two shapes", canvases: 2, steps: 3, seed: 2'
    generate told 'prompt: "two shapes", system: "red", canvases: 2, steps: 3, seed: 1'
    generate thinks 'prompt: "two shapes", thinking: true, canvases: 2, steps: 3, seed: 1'
    generate fixed 'prompt: "two shapes", sampler: fixed, steps: 3, seed: 1'
    generate sure 'prompt: "two shapes", sampler: confidence, threshold: 0.5, steps: 3, seed: 1'
    generate short 'prompt: "two shapes", length: 5, steps: 3, seed: 1'
} >"$work/all.yaml"
run all --no-cache; verdict runs $?
[ -n "$(line all one)" ] && [ "$(line all one)" = "$(line all same)" ]; verdict a_prompt_is_trimmed $?
for name in other told thinks fixed sure short; do
    [ -n "$(line all $name)" ] && [ "$(line all one)" != "$(line all $name)" ]; verdict "${name}_writes_something_else" $?
done
cp "$work/all.yaml" "$work/threads.yaml"; run threads --no-cache --threads 1
[ "$(grep '^text ' "$work/threads.txt" | sort)" = "$(grep '^text ' "$work/all.txt" | sort)" ]; verdict the_same_text_for_any_threads $?
cp "$work/all.yaml" "$work/dry.yaml"; run dry --no-cache --dry-run && ! grep -q '^text ' "$work/dry.txt"; verdict a_dry_run_writes_nothing $?
cp "$work/all.yaml" "$work/explained.yaml"; run explained --no-cache --explain && grep -q 'TextDiffusionSample' "$work/explained.txt"; verdict is_explained $?
emu=$(realpath "$KILN_BUILD/emu/kiln-cuda-emu.so" 2>/dev/null)
if [ -e "$emu" ]; then
    { begin; generate one 'prompt: "two shapes", canvases: 2, steps: 3, seed: 1'; } >"$work/device.yaml"
    KILN_CUDA_LIBRARY=$emu KILN_EMU_REPORT=$work/report run device --no-cache --device cuda && grep -q '^faults 0 kernel_faults 0 ' "$work/report" &&
        [ "$(line device one)" = "$(line all one)" ]
    verdict the_same_text_on_a_device $?
fi

# what is wired is passed on
{
    begin
    echo '  two: {class_type: PrimitiveString, inputs: {value: two}}'
    echo '  ask: {class_type: StringConcatenate, inputs: {string_a: [two, 0], string_b: " shapes"}}'
    echo '  seed: {class_type: PrimitiveInt, inputs: {value: 1}}'
    generate wired 'prompt: [ask, 0], canvases: 2, steps: 3, seed: [seed, 0]'
} >"$work/wired.yaml"
run wired --no-cache && [ -n "$(line all one)" ] && [ "$(line wired wired)" = "$(line all one)" ]; verdict what_is_wired_is_passed_on $?

# noise that is given instead of a seed
given() { generate "$1" "noise: [noise, 0], prompt: \"two shapes\", canvases: 2, steps: 8, seed: $2"; }
{ begin; echo '  noise: {class_type: TextDiffusionNoise, inputs: {file: plain.noise.safetensors}}'; given a 1; given b 2; } >"$work/noise.yaml"
run noise --no-cache && [ -n "$(line noise a)" ] && [ "$(line noise a)" = "$(line noise b)" ]; verdict given_noise_is_used $?
cp "$work/noise.yaml" "$work/dry_noise.yaml"; run dry_noise --no-cache --dry-run; verdict a_dry_run_with_given_noise $?

# a prompt is read once: another seed, in another process, goes on from it
{ begin; generate one 'prompt: "two shapes", canvases: 2, steps: 3, seed: 1'; } >"$work/first.yaml"
{ begin; generate other 'prompt: "two shapes", canvases: 2, steps: 3, seed: 2'; } >"$work/second.yaml"
run first --cache "$work/cache" --events "$work/first.events" && run second --cache "$work/cache" --events "$work/second.events"
[ "$(line second other)" = "$(line all other)" ]; verdict from_the_store_as_without_it $?
grep -q '"node": "one/encode".*"what": "token", "done": 0' "$work/first.events"; verdict the_first_reads_the_prompt $?
! grep -q 'other/encode".*"what": "token"' "$work/second.events"; verdict the_second_does_not $?
run first --cache "$work/cache" --events "$work/again.events" && [ "$(line first one)" = "$(line all one)" ] && ! grep -q '"progress"' "$work/again.events"
verdict the_same_again_computes_nothing $?

# killed in the second canvas, it goes on there; every step has a draft of the text. Of a few seeds one writes three canvases, on any processor.
drafts() { grep -c '"event": "draft"' "$1" 2>/dev/null; }
for seed in 5 2 4 6 8 9 10; do
    { begin; generate long "prompt: \"two shapes\", canvases: 3, steps: 400, confidence: 0, seed: $seed"; } >"$work/long.yaml"
    run long --no-cache --events "$work/long.events"; whole=$(line long long)
    [ "$(drafts "$work/long.events")" -ne 1200 ] || break
done
[ "$(drafts "$work/long.events")" -eq 1200 ]; verdict each_step_has_a_draft $?
for _ in 1 2 3 4 5; do
    rm -rf "$work/cut-cache" "$work/cut.events"
    "$kiln" run "$work/long.yaml" --precision f32 --plugins "$work/plugins" --models "$work/models" --out "$work/out" --cache "$work/cut-cache" --save-state 0.000001 \
        --events "$work/cut.events" >"$work/cut.txt" 2>&1 & pid=$!
    while kill -0 $pid 2>/dev/null; do
        seen=$(drafts "$work/cut.events"); [ "${seen:-0}" -lt 450 ] || break
        sleep 0.01
    done
    { kill -KILL $pid; wait $pid; } 2>/dev/null
    grep -q '^text long ' "$work/cut.txt" || break
done
run long --cache "$work/cut-cache" --events "$work/rest.events"
rest=$(drafts "$work/rest.events")
[ -n "$whole" ] && [ "$rest" -gt 0 ] && [ "$rest" -lt 800 ] && [ "$(line long long)" = "$whole" ]; verdict killed_it_goes_on $?
draft=$(sed -n 's/.*"event": "draft".*"node": "long\/sample".*"text": "\(.*\)".*/\1/p' "$work/rest.events" | head -n 1)
[ "${#draft}" -gt 5 ]; verdict drafts_are_events $?

# tokenizers
{
    printf 'kiln: 1\nnodes:\n  t: {class_type: TokenizerLoader, inputs: {file: dg-tiny}}\n'
    echo '  ids: {class_type: TokenizerEncode, inputs: {tokenizer: [t, 0], text: "a red circle<turn|>", special: true}}'
    echo '  back: {class_type: TokenizerDecode, inputs: {tokenizer: [t, 0], tokens: [ids, 0]}}'
    echo '  all: {class_type: TokenizerDecode, inputs: {tokenizer: [t, 0], tokens: [ids, 0], special: true}}'
    echo '  n: {class_type: TokenizerCount, inputs: {tokenizer: [t, 0], text: "a red circle<turn|>", special: true}}'
    echo '  n_text: {class_type: StringFormat, inputs: {text: "x"}}'
    for x in back all; do echo "  text_$x: {class_type: TestText, inputs: {text: [$x, 0], name: $x}}"; done
} | grep -v StringFormat >"$work/words.yaml"
run words --no-cache; verdict tokenizer_nodes_run $?
same decoded "$(line words back)" "a red circle"
same decoded_with_special_tokens "$(line words all)" "a red circle<turn|>"

# LLaDA: masks are filled in by its own sampler, by threads as without them, without a temperature for any seed
cp -R "$here/llada-tiny" "$work/models/text_diffusion/" && chmod -R u+w "$work/models"
masked() { echo "  $1: {class_type: TextDiffusionGenerate, inputs: {model: [model, 0], $2}}"; echo "  text_$1: {class_type: TestText, inputs: {text: [$1, 0], name: $1}}"; }
{
    begin | sed 's/dg-tiny/llada-tiny/'
    masked one 'prompt: "a cat", canvases: 2, length: 16, steps: 4, seed: 1, special: true'
    masked same 'prompt: "a cat", canvases: 2, length: 16, steps: 4, seed: 2, special: true, sampler: low_confidence, temperature: 0'
    masked warm 'prompt: "a cat", canvases: 2, length: 16, steps: 4, seed: 1, special: true, temperature: 1.5'
} >"$work/llada.yaml"
run llada --no-cache && [ -n "$(line llada one)" ] && [ "$(line llada one)" = "$(line llada same)" ]; verdict llada_writes $?
[ -n "$(line llada warm)" ] && [ "$(line llada one)" != "$(line llada warm)" ]; verdict a_temperature_changes_it $?
cp "$work/llada.yaml" "$work/llada_thread.yaml"; run llada_thread --no-cache --threads 1 && [ "$(line llada_thread warm)" = "$(line llada warm)" ]; verdict llada_the_same_for_any_threads $?
if [ -e "$emu" ]; then
    KILN_CUDA_LIBRARY=$emu KILN_EMU_REPORT=$work/report run llada --no-cache --device cuda && grep -q '^faults 0 kernel_faults 0 ' "$work/report" && [ "$(line llada one)" = "$(line llada_thread one)" ]
    verdict llada_on_a_device $?
fi

# what inspect says
inspects() { # FOLDER STATUS WORDS
    "$kiln" inspect "$work/models/text_diffusion/$1" >"$work/log" 2>&1; local got=$?
    [ $got -eq "$2" ] && grep -qF -- "$3" "$work/log"; verdict "inspects_$1" $?
}
inspects dg-tiny 0 'text diffusion: DiffusionGemma (family diffusion-gemma), complete'
inspects llada-tiny 0 'text diffusion: LLaDA (family llada), complete'
cp "$here/llada-tiny.gguf" "$work/models/text_diffusion/"
inspects llada-tiny.gguf 0 'text diffusion: LLaDA (family llada), complete'
sed 's/llada-tiny/llada-tiny.gguf/' "$work/llada.yaml" >"$work/llada_gguf.yaml"; run llada_gguf --no-cache && [ -n "$(line llada_gguf one)" ]; verdict llada_writes_from_a_gguf_file $?
cp -R "$here/llada-tiny" "$work/models/text_diffusion/mute" && chmod -R u+w "$work/models" && rm "$work/models/text_diffusion/mute/tokenizer.json"
inspects mute 2 'there is no tokenizer'
cp -R "$here/llada-tiny" "$work/models/text_diffusion/short" && sed -i 's/"n_layers": 3/"n_layers": 4/' "$work/models/text_diffusion/short/config.json"
inspects short 2 'blocks.3.'

# weights that are finite, and whose products are not (D3)
overflowing() { # FOLDER TENSOR: a copy of FOLDER's model, called FOLDER-inf, with this tensor near the end of f32's range
    cp -R "$here/$1" "$work/models/text_diffusion/$1-inf" && chmod -R u+w "$work/models" && python3 - "$work/models/text_diffusion/$1-inf/model.safetensors" "$2" <<'PY'
import json, struct, sys
file = bytearray(open(sys.argv[1], 'rb').read())
data = 8 + struct.unpack('<Q', file[:8])[0]
tensor = json.loads(file[8:data])[sys.argv[2]]
begin, end = tensor['data_offsets']
most = {'F32': b'\x00\x00\x60\x7f', 'BF16': b'\x60\x7f'}[tensor['dtype']]
file[data + begin:data + end] = most * ((end - begin) // len(most))
open(sys.argv[1], 'wb').write(file)
PY
}
for of in dg-tiny:model.decoder.layers.0.input_layernorm.weight llada-tiny:model.transformer.blocks.0.attn_norm.weight tess-tiny:model.layers.0.input_layernorm.weight; do
    name=${of%%:*}
    overflowing "$name" "${of#*:}"
    { begin | sed "s/dg-tiny/$name-inf/"; generate x 'prompt: "two shapes", steps: 3, seed: 1'; } >"$work/$name-inf.yaml"
    run "$name-inf" --no-cache; [ $? -eq 1 ] && grep -qE "^kiln: error: node 'x/sample' .*not finite in step 1; look .*kiln inspect --finite .*$name-inf/model.safetensors" "$work/log"; verdict "scores_of_${name}_that_are_not_finite" $?
    cp "$work/$name-inf.yaml" "$work/dry-inf.yaml"; run dry-inf --no-cache --dry-run; verdict "a_dry_run_of_${name}_then" $?
done

# a text in a file
{ begin; generate one 'prompt: "two shapes", canvases: 2, steps: 3, seed: 1'; echo '  save: {class_type: SaveText, inputs: {text: [one, 0], filename_prefix: texts/shapes}}'; } >"$work/save.yaml"
run save --no-cache && [ "$(cat "$work/out/texts/shapes_00001_.txt")" = "$(line all one)" ]; verdict a_text_is_saved $?
printf 'kiln: 1\nnodes:\n  one: {class_type: PrimitiveString, inputs: {value: "{\\"a\\": [1, 2]}"}}\n  save: {class_type: SaveText, inputs: {text: [one, 0], filename_prefix: texts/json, format: json}}\n' >"$work/json.yaml"
run json --no-cache && [ "$(tr -d '\n' <"$work/out/texts/json_00001_.json")" = '{  "a": [    1,    2  ]}' ]; verdict json_is_indented $?
sed 's|texts/shapes|../shapes|' "$work/save.yaml" >"$work/outside.yaml"; ! run outside --no-cache && [ ! -e "$work/shapes_00001_.txt" ]; verdict not_outside_the_output_folder $?

# bad use
refused() { # NAME WORDS: $work/NAME.yaml is refused with these words
    run "$1" --no-cache; local got=$?
    [ $got -eq 1 ] && grep -qF -- "$2" "$work/$1.txt"; verdict "refuses_$1" $?
}
{ begin; generate x "prompt: \"$(head -c 900 /dev/zero | tr '\0' z)\""; } >"$work/long_prompt.yaml"
refused long_prompt "the model has room for 512, of which a canvas takes 16"
{ begin; generate x 'prompt: "a", canvases: 40'; } >"$work/canvases.yaml"
refused canvases "40 canvases of 16 tokens behind"
{ begin; generate x 'prompt: "a", canvases: 1048576, length: 250'; } >"$work/large.yaml"
refused large "do not fit into the model's context of 512"
{ begin | sed 's/dg-tiny/llada-tiny/'; generate x 'prompt: "a", thinking: true'; } >"$work/thoughts.yaml"
refused thoughts "LLaDA has no thoughts; switch 'thinking' and 'empty_thought' off"
{ begin; generate x 'prompt: "a", temperature: 0'; } >"$work/cold.yaml"
refused cold "a temperature of 0 towards 0.4; 0.001 is the least but 0 for both, which draws the likeliest token"
{ begin; echo '  noise: {class_type: TextDiffusionNoise, inputs: {file: plain.noise.safetensors}}'; generate x 'noise: [noise, 0], prompt: "a", canvases: 3, steps: 8'; } >"$work/little_noise.yaml"
refused little_noise "the noise has 2 canvases of 8 steps; canvas 3, step 0 is wanted"
{ begin; echo '  noise: {class_type: TextDiffusionNoise, inputs: {file: plain.noise.safetensors}}'; generate x 'noise: [noise, 0], prompt: "a", length: 8'; } >"$work/other_noise.yaml"
refused other_noise "the noise is for canvases of 16 tokens, and this one has 8"
{ begin; echo '  noise: {class_type: TextDiffusionNoise, inputs: {file: goldens.safetensors}}'; generate x 'noise: [noise, 0], prompt: "a"'; } >"$work/no_noise.yaml"
refused no_noise "the noise has no tensor 'start' of type i32"
{
    begin
    echo '  e: {class_type: TextDiffusionEncode, inputs: {model: [model, 0], prompt: "", raw: true, piece: 8}}'
    echo '  s: {class_type: TextDiffusionSample, inputs: {model: [model, 0], prompt: [e, 0], length: 20}}'
    echo '  t: {class_type: TestText, inputs: {text: [s, 0], name: t}}'
} >"$work/pieces.yaml"
refused pieces "raise 'piece' of TextDiffusionEncode"
exit $status
