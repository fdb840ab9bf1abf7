# test_options.sh - nothing that is given on the command line is passed over in silence: what cannot hold is refused, what gives way is said.
. "$KILN_ROOT/tests/cli/head.sh"
silent() { check "$1" [ ! -s "$work/log" ]; }
cat >"$work/flow.yaml" <<'Y'
params: {width: 16, prefix: k}
nodes:
  empty: {class_type: EmptyImage, inputs: {width: "${width}", height: 16}}
  save: {class_type: SaveImage, inputs: {images: [empty, 0], filename_prefix: "${prefix}"}}
Y
flow() { "$kiln" run "$work/flow.yaml" --no-cache -q --out "$work/out" "$@"; }

# ---- folders that are not there
expect models_not_there 2 "--models: there is no folder '$work/nowhere'" flow --models "$work/nowhere"
expect models_second_not_there 2 "--models: there is no folder '$work/nowhere'" flow --models "$work:$work/nowhere"
: >"$work/file"; expect models_a_file 2 "--models: this is a file and no folder: '$work/file'" flow --models "$work/file"
expect input_not_there 2 "--input: there is no folder '$work/nowhere'" flow --input "$work/nowhere"
expect models_variable 2 "KILN_MODELS: there is no folder '$work/nowhere'" env KILN_MODELS="$work/nowhere" "$kiln" check "$work/flow.yaml"
expect input_variable 2 "KILN_INPUT: there is no folder '$work/nowhere'" env KILN_INPUT="$work/nowhere" "$kiln" check "$work/flow.yaml"
expect plugins_not_there 2 "--plugins: there is no folder or file '$work/nowhere'" flow --plugins "$work/nowhere"
expect plugins_variable 2 "KILN_PLUGIN_PATH: there is no folder or file '$work/nowhere'" env KILN_PLUGIN_PATH="$work/nowhere" "$kiln" check "$work/flow.yaml"
expect an_empty_variable_is_none 0 "" env KILN_MODELS= KILN_INPUT= KILN_PLUGIN_PATH= "$kiln" check "$work/flow.yaml"
many=$(printf "$work:%.0s" $(seq 140))
expect more_folders_than_are_looked_at 2 "--models: more than" flow --models "$many"
expect check_too 2 "--models: there is no folder" "$kiln" check "$work/flow.yaml" --models "$work/nowhere"
expect graph_too 2 "--models: there is no folder" "$kiln" graph "$work/flow.yaml" -o - --models "$work/nowhere"
for option in models input plugins out cache set over sheet manifest events trace device precision memory; do expect "empty_$option" 2 "option '--$option' needs a value" flow "--$option="; done
mkdir "$work/no_plugins"; echo "no plugin" >"$work/text.so"
expect a_plugin_that_does_not_load_is_said 0 "text.so was not loaded" "$kiln" check "$work/flow.yaml" --plugins "$work/text.so"
expect a_folder_without_plugins_is_said 0 "the plugin folder '$work/no_plugins' holds no .so file" "$kiln" check "$work/flow.yaml" --plugins "$work/no_plugins"

# ---- options that would do nothing
expect a_sheet_is_a_picture 2 "its ending decides what is written: .png, .jpg or .webp" flow --over width=16,24 --sheet "$work/x.gif"
check before_anything_ran [ ! -e "$work/out" ]
expect quiet_and_verbose 2 "which?" flow -v
expect two_ways_of_looking 2 "which?" flow --explain --dry-run
for option in --events --trace; do for mode in --explain --dry-run; do expect "nothing_to_write${mode#-}$option" 2 "nothing is run" flow $mode $option "$work/e"; done; done
expect no_sheet_of_a_dry_run 2 "nothing is run" flow --over width=16,24 --dry-run --sheet "$work/x.png"
expect a_size_of_no_cache 2 "nothing is kept" flow --cache-size 1G
expect states_of_no_cache 2 "nothing is kept" flow --save-state 3
expect one_file_for_two 2 "write to the same file" flow --events "$work/e" --trace "$work/e"
expect help_of_no_command 2 "did you mean 'run'" "$kiln" help rnu
expect help_of_two 2 "what is 'check'" "$kiln" help run check
expect a_version_of_something 2 "what is 'run'" "$kiln" --version run
expect help_of_a_command 0 "usage: kiln run" "$kiln" help run
expect help_of_a_command_another_way 0 "usage: kiln run" "$kiln" --help run
expect a_parameter_that_does_nothing 0 "parameter 'width' is used nowhere" flow --set width=24 --set empty.width=32
expect the_last_setting_holds 0 "" flow --set width=24 --set width=32 --set prefix=last
check it_did [ "$("$kiln" run "$work/out/last_00001_.png" --explain 2>/dev/null | grep -c .)" -gt 1 ] && check it_did_indeed grep -qa '"width": 32' "$work/out/last_00001_.png"

# ---- values that are used otherwise than they are written: said with their place
cat >"$work/latent.yaml" <<'Y'
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
  empty:
    class_type: EmptyLatentImage
    inputs: {width: 100, height: 64}
  decode: {class_type: VAEDecode, inputs: {samples: [empty, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: l}}
Y
latent() { "$kiln" "$1" "$work/latent.yaml" --models tests/golden "${@:2}"; }
expect a_width_that_is_no_multiple 0 "latent.yaml:5:21: warning: node 'empty' (EmptyLatentImage): input 'width': 100 is no multiple of 8; 96 will be used" latent check
expect and_run_says_so 0 "100 is no multiple of 8; 96 will be used" latent run -q --out "$work/out"
expect of_a_setting 0 "99 is no multiple of 8; 96 will be used" latent check --set empty.width=64 --set empty.height=99
expect of_a_row 0 "70 is no multiple of 8; 64 will be used [row 2: empty.height=70]" latent run --no-cache -q --out "$work/out" --over empty.height=64,70
expect multiples_are_silent 0 "" latent check --set empty.width=96
silent multiples_say_nothing
sed 's/width: 100,/width: [number, 0],/; s/^nodes:/nodes:\n  number: {class_type: PrimitiveInt, inputs: {value: 100}}/' "$work/latent.yaml" >"$work/wired.yaml"
expect of_a_wired_value 0 "wired input 'width': 100 is no multiple of 8; 96 will be used" "$kiln" run "$work/wired.yaml" --models tests/golden --out "$work/out"
expect once_though_a_budget_is_estimated 0 "" "$kiln" run "$work/wired.yaml" --models tests/golden --out "$work/out" --no-cache --memory 50M
check said_once [ "$(grep -c 'no multiple' "$work/log")" = 1 ]
expect the_parameter_says_it 0 "from 16 to 16384, a multiple of 8; default 512" "$kiln" nodes EmptyLatentImage
for node in EmptyLatentImage LatentCrop LatentComposite ConditioningSetArea; do check "floored_$node" [ "$("$kiln" nodes "$node" --json | grep -o '"floored": true' | wc -l)" -ge 2 ]; done
cat >"$work/upscale.yaml" <<'Y'
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  larger: {class_type: LatentUpscale, inputs: {samples: [empty, 0], width: 20, height: 100}}
  decode: {class_type: VAEDecode, inputs: {samples: [larger, 0], vae: [model, 2]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: up}}
Y
expect upscale_says_what_it_uses 0 "LatentUpscale: height 100: 96 is used" "$kiln" run "$work/upscale.yaml" --no-cache --out "$work/up"
check both_sides grep -qF "LatentUpscale: width 20: 64 is used" "$work/log"
printf 'nodes:\n  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}\n  a: {class_type: EmptyImage, inputs: {width: 67, height: 64}}\n  e: {class_type: VAEEncode, inputs: {pixels: [a, 0], vae: [model, VAE]}}\n  d: {class_type: VAEDecode, inputs: {samples: [e, 0], vae: [model, VAE]}}\n  save: {class_type: SaveImage, inputs: {images: [d, 0]}}\n' >"$work/encode.yaml"
expect a_picture_that_is_cut 0 "a picture of 67x64 pixels is cut to" "$kiln" run "$work/encode.yaml" --models tests/golden --out "$work/out"

# ---- names of files, before anything runs
prefixes() {
    local name=$1 part=$2 prefix=$3
    expect "prefix_$name" 2 "$part" "$kiln" check "$work/flow.yaml" --set "prefix=$prefix"
}
prefixes dot "names a folder" .
prefixes dots "holds '..'" ..
prefixes ends_in_dot "names a folder" a/.
prefixes folder "names a folder" a/
prefixes leaves "holds '..'" a/../../b
prefixes absolute "absolute path" /tmp/x
prefixes empty "is empty" ''
prefixes tab "control character 0x09" $'a\tb'
prefixes escape "control character 0x1b" $'\033[2J'
prefixes long "longer than 200 bytes" "$(printf 'x%.0s' $(seq 201))"
prefixes long_folder "longer than 255 bytes" "$(printf 'x%.0s' $(seq 256))/a"
prefixes very_long "longer than 1024" "$(printf 'x/%.0s' $(seq 600))a"
prefixes token_at_its_longest "longer than 200 bytes" "%width%$(printf 'x%.0s' $(seq 196))"
expect prefix_good 0 "" "$kiln" check "$work/flow.yaml" --set 'prefix=a b/é/%year%..x'

# ---- budgets that are too small, however small: the same sentence
printf '' >"$work/sentences"
for size in 1 1K 100K; do
    expect "memory_$size" 1 "is too small for this workflow: " latent run -q --out "$work/small" --set empty.width=96 --memory $size
    sed -n 's/.*workflow: \(.*\)/\1/p' "$work/log" >>"$work/sentences"
done
check memory_one_sentence_for_all [ "$(sort "$work/sentences" | uniq -c | awk '{print $1}')" = 3 ]
check memory_that_names_the_least grep -q 'give --memory [0-9]*M or more' "$work/sentences"
expect memory_which_works 0 "" latent run -q --out "$work/small" --set empty.width=96 --memory "$(sed -n '1s/.*--memory \([0-9]*M\).*/\1/p' "$work/sentences")"
expect memory_1_explained 1 "is too small for this workflow: " latent run --explain --set empty.width=96 --memory 1
expect memory_1_of_pictures_alone 1 "what goes from node to node needs" flow --memory 1

# ---- descriptors
for n in 6 10 12; do expect "descriptors_$n" 1 "file descriptors ran out: this process may have $n files open at once" bash -c "ulimit -n $n; exec '$kiln' check '$work/flow.yaml'"; done
enough=$(sed -n 's/.*ulimit -n \([0-9]*\).*/\1/p' "$work/log")
expect descriptors_that_do 0 "" bash -c "ulimit -n ${enough:-0}; exec '$kiln' run '$work/flow.yaml' --out '$work/out'"
check descriptors_then_nothing_is_said [ "$(grep -c ulimit "$work/log")" = 0 ]
exit $status
