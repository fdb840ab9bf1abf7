# test_command_edges.sh - what commands are seldom asked: pipes, endings, limits and numbers that are none, names that fit nothing or several.
. "$KILN_ROOT/tests/cli/head.sh"
cat >"$work/flow.yaml" <<'W'
params: {width: 16}
nodes:
  empty: {class_type: EmptyImage, inputs: {width: "${width}", height: 16}}
  more: {class_type: ImageInvert, inputs: {image: [empty, 0]}}
  save: {class_type: SaveImage, inputs: {images: [more, 0]}}
W
flow() { "$kiln" run "$work/flow.yaml" -q --out "$work/out" "$@"; }

# ---- inspect: standard input and pipes
lora=workflows/models/loras/shapes-night.safetensors
expect a_file_on_standard_input 0 "(family lora), complete" bash -c '"$1" inspect - <"$2"' _ "$kiln" $lora
expect a_pipe_on_standard_input 0 "(family lora), complete" bash -c 'cat "$2" | "$1" inspect -' _ "$kiln" $lora
expect a_process_substitution 0 "(family lora), complete" bash -c '"$1" inspect <(cat "$2")' _ "$kiln" $lora
expect a_pipe_of_something_else 2 "a safetensors file starts with 8 bytes of header length" bash -c 'echo hello | "$1" inspect -' _ "$kiln"
expect no_room_for_a_pipe 2 "no room to read it into (TMPDIR)" bash -c 'cat "$2" | TMPDIR=/nowhere "$1" inspect -' _ "$kiln" $lora
expect a_pipe_that_is_not_there 2 "cannot open: No such file" "$kiln" inspect "$work/nowhere"
expect finite_and_identity 0 "identity " "$kiln" inspect tests/golden/tiny-sd1/unet --finite --identity
expect a_picture_is_no_model 2 "this is a picture" bash -c '"$1" run "$2" -q --no-cache --out "$3" >"$3.path" && "$1" inspect "$(cat "$3.path")"' _ "$kiln" "$work/flow.yaml" "$work/p"
expect inspect_two 2 "which file or folder?" "$kiln" inspect a b

# ---- cache
export KILN_CACHE="$work/cache"
expect no_cache_yet 2 "there is no cache at" "$kiln" cache ls
flow --set width=16 >/dev/null; flow --set width=24 >/dev/null
expect which_action 2 "" "$kiln" cache
expect no_such_action 2 "" "$kiln" cache sl
expect sort_by_something_else 2 "it is use, size or time" "$kiln" cache ls --sort colour
for by in use size time; do expect "sorted_by_$by" 0 "ImageInvert" "$kiln" cache ls --sort $by; done
expect a_limit_that_is_no_number 2 "it is a number" "$kiln" cache ls -n many
expect more_than_shown 0 "more (-n 0 lists all)" "$kiln" cache ls -n 1
same a_limit "$("$kiln" cache ls -n 1 --json | wc -l)" 1
same no_limit "$("$kiln" cache ls -n 0 --json | wc -l)" "$("$kiln" cache stat --json | grep -o '"entries": [0-9]*' | grep -o '[0-9]*')"
same of_one_type "$("$kiln" cache ls --type ImageInvert --json | grep -c ImageInvert)" 2
key=$("$kiln" cache ls --type ImageInvert -n 1 | tail -n 1 | cut -d ' ' -f 1)
expect show_one 0 "ImageInvert" "$kiln" cache show "$key"
check show_one_as_json python3 -c 'import json, sys; assert json.loads(sys.argv[1])["type"] == "ImageInvert", sys.argv[1]' "$("$kiln" cache show "$key" --json)"
expect show_none 2 "which key?" "$kiln" cache show
expect show_too_little 2 "which key?" "$kiln" cache show "${key:0:1}"
expect show_no_key 2 "which key?" "$kiln" cache show not-a-key-at-all
expect show_what_is_not_there 2 "nothing is kept under" "$kiln" cache show 00000000000000000000000000000000
expect an_option_of_another_action 2 "" "$kiln" cache stat --limit 3
expect a_word_too_many 2 "" "$kiln" cache stat more
expect a_size_that_is_none 2 "it is a size like" "$kiln" cache gc --size many
expect a_size_of_nothing 2 "it is a size like" "$kiln" cache gc --size 0
for action in gc verify stat; do check "${action}_as_json" python3 -c 'import json, sys; json.loads(sys.argv[1])' "$("$kiln" cache $action --json)"; done
expect clear_of_one_type 0 "removed 2 results" "$kiln" cache clear --type ImageInvert
same the_others_stay "$("$kiln" cache ls --type ImageInvert --json | wc -l)" 0
expect clear_everything 0 "removed" "$kiln" cache clear
same nothing_is_left "$("$kiln" cache ls --json | wc -l)" 0
expect a_cache_that_is_off 2 "off" env KILN_CACHE=off "$kiln" cache ls
export KILN_CACHE=off

# ---- graph
for ending in dot gv; do expect "a_graph_as_$ending" 0 "" "$kiln" graph "$work/flow.yaml" -o "$work/g.$ending"; check "${ending}_is_written" grep -q 'EmptyImage' "$work/g.$ending"; done
expect an_ending_that_is_none 2 "the ending must be .svg, .png, .pdf or .dot" "$kiln" graph "$work/flow.yaml" -o "$work/g.gif"
expect no_ending 2 "the ending must be" "$kiln" graph "$work/flow.yaml" -o "$work/graph"
expect where_to 2 "which workflow file, and where to?" "$kiln" graph "$work/flow.yaml"
expect a_folder_that_is_not_there 1 "nowhere" "$kiln" graph "$work/flow.yaml" -o "$work/nowhere/g.dot"
if command -v dot >/dev/null; then expect dot_cannot_write_there 1 "could not be drawn or written" "$kiln" graph "$work/flow.yaml" -o "$work/nowhere/g.svg"; fi
expect no_dot 1 "Graphviz is not installed" env PATH=/nowhere "$kiln" graph "$work/flow.yaml" -o "$work/g.svg"
cat >"$work/wide.yaml" <<'W'
nodes:
  a: {class_type: PrimitiveString, inputs: {value: "a value so long that it is cut, äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöü"}}
  show: {class_type: PreviewAny, inputs: {source: [a, 0]}}
W
expect a_long_value_is_cut 0 "..." "$kiln" graph "$work/wide.yaml" -o -

# ---- models
expect models_take_no_words 2 "" "$kiln" models some
expect of_one_kind 0 "shapes-night" "$kiln" models --models workflows/models --kind loras
same of_no_kind "$("$kiln" models --models workflows/models --kind nonsense --json | grep -c shapes)" 0
expect a_file_nobody_knows 0 "no loaded plugin knows it" bash -c 'mkdir -p "$2/vae" && cp "$3" "$2/vae/odd.gguf" && "$1" models --models "$2" --kind vae' _ "$kiln" "$work/m" tests/golden/gguf/blocks.gguf
echo damaged >"$work/m/vae/broken.safetensors"
expect a_file_that_cannot_be_read 0 "broken.safetensors" "$kiln" models --models "$work/m"
check models_as_json python3 -c 'import json, sys; names = json.loads(sys.argv[1]); assert "broken" in sys.argv[1]' "$("$kiln" models --models "$work/m" --json --hash)"

# ---- inspect
expect standard_input_that_does_not_fit 2 "cannot be read into a file of TMPDIR: File too large" bash -c 'trap "" XFSZ; ulimit -f 8; cat workflows/models/loras/shapes-night.safetensors | "$1" inspect -' _ "$kiln"

# ---- run
expect a_state_time_that_is_none 2 "" flow --cache "$work/c" --save-state often
expect a_cache_size_that_is_none 2 "" flow --cache "$work/c" --cache-size large
expect threads_that_are_none 2 "" flow --threads 0
expect a_timeout_that_is_none 2 "" flow --plugin-timeout soon
expect a_sheet_in_the_working_folder 0 "" bash -c 'cd "$2" && "$1" run flow.yaml --no-cache -q --over width=16,24 --sheet s.png' _ "$kiln" "$work"
expect a_sheet_where_nothing_may_be_written 1 "cannot write" flow --over width=16,24 --sheet /proc/s.png
exit $status
