# test_config.sh - the configuration file: the command line wins, then the environment, then the file; what it cannot mean is a fault; aliases of models
# stand resolved in what is written.
. "$KILN_ROOT/tests/cli/head.sh"
unset KILN_MODELS KILN_INPUT KILN_PLUGIN_PATH KILN_MEMORY KILN_ALIASES
export KILN_CONFIG="$work/config.yaml" HOME="$work/home"
mkdir -p "$HOME"
cat >"$work/flow.yaml" <<'Y'
params: {width: 16}
nodes:
  empty: {class_type: EmptyImage, inputs: {width: "${width}", height: 16}}
  save: {class_type: SaveImage, inputs: {images: [empty, 0], filename_prefix: k}}
Y
flow() { (cd "$work" && "$kiln" run flow.yaml "$@"); }
config() { printf '%s\n' "$@" >"$work/config.yaml"; }

# ---- which file
unset XDG_CONFIG_HOME
mkdir -p "$HOME/.config/kiln" "$work/xdg/kiln"
echo 'out: of-home' >"$HOME/.config/kiln/config.yaml"
echo 'out: of-xdg' >"$work/xdg/kiln/config.yaml"
config 'out: of-variable'
expect by_variable 0 "of-variable/k_00001_.png" flow
expect by_xdg 0 "of-xdg/k_00001_.png" env -u KILN_CONFIG XDG_CONFIG_HOME="$work/xdg" bash -c "cd '$work' && '$kiln' run flow.yaml"
expect at_home 0 "of-home/k_00001_.png" env -u KILN_CONFIG bash -c "cd '$work' && '$kiln' run flow.yaml"
expect none 0 "out/k_00001_.png" env KILN_CONFIG=off bash -c "cd '$work' && '$kiln' run flow.yaml"
expect a_file_that_is_not_there 2 "KILN_CONFIG: there is no file" env KILN_CONFIG="$work/nowhere.yaml" "$kiln" check "$work/flow.yaml"
expect help_names_it 0 "~/.config/kiln/config.yaml" "$kiln" run --help

# ---- who wins
config 'out: of-config' 'threads: 1'
expect the_command_line_wins 0 "typed/k_00001_.png" flow --out typed
expect an_option_given_twice_is_still_a_fault 2 "is given twice" flow --out a --out b
config 'memory: 1K' 'cache: kept-by-file' 'quiet: true'
expect the_file_holds 1 "is too small for this workflow" flow
expect the_environment_wins 0 "" env KILN_MEMORY=4G bash -c "cd '$work' && '$kiln' run flow.yaml"
config 'cache: ~/kept-by-file'
expect a_folder_at_home 0 "" env -u KILN_CACHE bash -c "cd '$work' && '$kiln' run flow.yaml"
check it_is_there [ -e "$HOME/kept-by-file/index.sqlite" ]
config 'cache: kept-by-file'
expect of_two_that_exclude_each_other 0 "" env -u KILN_CACHE bash -c "cd '$work' && '$kiln' run flow.yaml --no-cache"
check the_typed_one_held [ ! -e "$work/kept-by-file" ]
config 'quiet: true' 'sheet: x.png' 'json: true' 'out: of-config'
expect quiet_gives_way_to_verbose 0 "save (SaveImage)" flow -v
expect what_is_of_sweeps_concerns_no_single_run 0 "of-config" flow
config 'out: all' 'run: {out: of-run}'
expect a_section_of_the_command 0 "of-run/k_00001_.png" flow
config 'set: [width=24, empty.height=24]'
expect several_settings 0 "" flow --out set
check they_hold grep -qa '"height": 24' "$work/set/k_00001_.png"
expect a_typed_setting_is_the_last 0 "" flow --out set2 --set width=32
check it_holds grep -qa '"width": 32' "$work/set2/k_00001_.png"

# ---- folders come behind those of the environment
mkdir -p "$work/m1/checkpoints" "$work/m2/checkpoints"
echo 1 >"$work/m1/checkpoints/one.safetensors"; echo 2 >"$work/m2/checkpoints/two.safetensors"; echo 2 >"$work/m2/checkpoints/one.safetensors"
config "models: [$work/m2]"
folders() { "$kiln" models "$@" | sed -n 's/^looked in //p' | head -n 3 | xargs -n1 basename | paste -sd' '; }
same models_of_the_file "$(folders | cut -d' ' -f1)" m2
same behind_the_environment "$(KILN_MODELS="$work/m1" folders | cut -d' ' -f1,2)" "m1 m2"
same and_behind_the_command_line "$(folders --models "$work/m1" | cut -d' ' -f1,2)" "m1 m2"

# ---- faults
fault() { local name=$1 words=$2; shift 2; config "$@"; expect "$name" 2 "$words" "$kiln" check "$work/flow.yaml"; }
fault an_unknown_key "config.yaml:2:1: error: there is no option 'treads'; did you mean 'threads'?" 'out: x' 'treads: 3'
fault of_a_section "config.yaml:1:7: error: there is no option 'ot'; did you mean 'out'?" 'run: {ot: x}'
fault of_another_command "there is no option 'over' of this command" 'cache: {over: x}'
config 'quiet: yes'; expect a_flag 2 "config.yaml:1:8: error: quiet: it is true or false" flow
config 'threads: [1, 2]'; expect a_list_of_one_value 2 "threads: it takes one value" flow
config 'threads: lots'; expect a_value_that_is_wrong 2 "--threads lots: it is a number from 1" flow
fault a_folder_that_is_not_there "models: there is no folder '$work/nowhere'" "models: [$work/nowhere]"
fault no_map "it is a map of options to values" '[a, b]'
fault no_yaml "config.yaml:1:" 'a: b: c'
fault aliases_that_are_none "aliases: it is a map" 'aliases: x'
fault an_alias_with_a_colon "neither has a ':'" 'aliases: {"a:b": x}'
config '# nothing yet'; expect comments_alone 0 "no faults" "$kiln" check "$work/flow.yaml"
config 'treads: 3'; expect help_without_it 0 "usage: kiln run" "$kiln" run --help

# ---- aliases
cat >"$work/model.yaml" <<'Y'
params: {model: base}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: "${model}"}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  decode: {class_type: VAEDecode, inputs: {samples: [empty, 0], vae: [model, 2]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: m}}
Y
model() { (cd "$work" && "$kiln" run model.yaml --no-cache "$@"); }
config 'aliases: {base: shapes-sd1, gone: not-here.safetensors}'
expect an_alias_of_a_model 0 "out/m_00001_.png" model
check it_is_resolved_in_the_prompt grep -qa '"ckpt_name": "shapes-sd1"' "$work/out/m_00001_.png"
check no_trace_of_the_alias bash -c "! grep -qa '\"base\"' '$work/out/m_00001_.png'"
expect the_picture_runs_without_it 0 "" env KILN_CONFIG=off "$kiln" check "$work/out/m_00001_.png" --set model=shapes-sd1
key() { (cd "$work" && "$kiln" run model.yaml --explain "$@" 2>/dev/null | grep -oE '^ *model .*' | grep -oE '[0-9a-f]{16,32}' | head -n 1); }
check the_key_is_that_of_the_file [ "$(key)" = "$(key --set model=shapes-sd1)" ] && check there_is_a_key [ -n "$(key)" ]
expect an_alias_of_nothing 2 "no file 'not-here.safetensors' for checkpoints" model --set model=gone
check which_alias grep -qF "('gone' is an alias of it)" "$work/log"
expect rows_have_aliases_too 0 "m_00002_.png" model --over model=base,shapes-sd1 --out rows
expect the_environment_has_aliases 0 "" env KILN_CONFIG=off KILN_ALIASES=base=shapes-sd1 bash -c "cd '$work' && '$kiln' check model.yaml"
expect and_wins 2 "('base' is an alias of it)" env KILN_ALIASES=base=elsewhere bash -c "cd '$work' && '$kiln' check model.yaml"
expect a_list_that_is_none 2 "KILN_ALIASES: 'base' is not NAME=FILE" env KILN_CONFIG=off KILN_ALIASES=base bash -c "cd '$work' && '$kiln' check model.yaml"
# ---- aliases of embeddings, in prompts
cat >"$work/prompt.yaml" <<'Y'
params: {prompt: "a star, embedding:gem, (embedding:gem:1.2)", more: ""}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  text: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: "${prompt}"}}
  other: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: "embedding: gem, ${more}"}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  sampler: {class_type: KSampler, inputs: {model: [model, 0], positive: [text, 0], negative: [other, 0], latent_image: [empty, 0], steps: 1, cfg: 2.0}}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: [model, 2]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: p}}
Y
config 'aliases: {base: shapes-sd1, gem: jewel, gone: not-there}'
prompt() { (cd "$work" && "$kiln" run prompt.yaml --no-cache -q "$@"); }
expect an_alias_in_a_prompt 0 "out/p_00001_.png" prompt --set 'more=embedding:gem'
check the_prompt_has_the_file grep -qa '"text": "a star, embedding:jewel, (embedding:jewel:1.2)"' "$work/out/p_00001_.png"
check also_what_it_refers_to bash -c "! grep -qa 'embedding: *gem' '$work/out/p_00001_.png'"
expect the_picture_draws_without_it 0 "" env KILN_CONFIG=off "$kiln" check "$work/out/p_00001_.png"
expect without_the_alias 2 "no file 'gem' for embeddings" env KILN_CONFIG=off bash -c "cd '$work' && '$kiln' check prompt.yaml"
expect an_alias_of_no_embedding 2 "no file 'not-there' for embeddings" prompt --set 'prompt=embedding:gone'
expect a_word_that_is_no_name 0 "" env KILN_CONFIG=off KILN_ALIASES=star=x:red=y bash -c "cd '$work' && '$kiln' check prompt.yaml --set 'prompt=a red star, noembedding:star' --set other.text=embedding:jewel"
text_key() { (cd "$work" && "$kiln" run prompt.yaml --explain --set "prompt=$1" 2>/dev/null | grep -oE '^ *text .*' | grep -oE '[0-9a-f]{16,32}' | head -n 1); }
check the_key_of_a_prompt_is_the_files [ -n "$(text_key embedding:gem)" ] && same in_both_ways "$(text_key embedding:gem)" "$(text_key embedding:jewel)"
expect models_lists_them 0 "alias            base" "$kiln" models --kind none
expect models_lists_them_as_json 0 '"aliases": {"base": "shapes-sd1"' "$kiln" models --kind none --json
exit $status
