# test_front_edges.sh - what a script leans on, at its edges: warnings of rows that are run, faults that name the option, patterns with ? and [...], pipes with
# lists of folders, a result's ending found by --dry-run, and the progress of a sweep in a narrow terminal.
. "$KILN_ROOT/tests/cli/head.sh"
cat >"$work/round.yaml" <<'Y'
params: {width: 100, steps: 0}
nodes:
  empty: {class_type: EmptyLatentImage, inputs: {width: "${width}", height: 64}}
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  text: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a circle}}
  sampler: {class_type: KSampler, inputs: {model: [model, 0], positive: [text, 0], negative: [text, 0], latent_image: [empty, 0], seed: 1, steps: "${steps}", cfg: 1.0, sampler_name: euler, scheduler: normal}}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0]}}
Y
cat >"$work/load.yaml" <<'Y'
params: {image: default.png}
nodes:
  load: {class_type: LoadImage, inputs: {image: "${image}"}}
  save: {class_type: SaveImage, inputs: {images: [load, 0], filename_prefix: "got_${image.stem}"}}
Y
cat >"$work/flow.yaml" <<'Y'
nodes:
  empty: {class_type: EmptyImage, inputs: {width: 16, height: 16}}
  save: {class_type: SaveImage, inputs: {images: [empty, 0]}}
Y
cd "$work" || exit 2
rounded="is no multiple of 8; 96 will be used"

# ---- warnings are of what is run
expect a_warning_of_no_row 0 "2 rows" "$kiln" run round.yaml --no-cache --dry-run --set steps=1 --over width=96,104
check is_not_said bash -c '! grep -q "$1" log' _ "$rounded"
expect a_warning_of_every_row 0 "$rounded" "$kiln" run round.yaml --no-cache --dry-run --over steps=1,2
same is_said_once_and_names_no_row "$(grep -c "$rounded" log) $(grep -c "row 1" log)" "1 0"
expect a_warning_of_one_row 0 "[row 2: width=99]" "$kiln" run round.yaml --no-cache --dry-run --set steps=1 --over width=96,99
expect quiet_is_quiet 0 "" "$kiln" run round.yaml --no-cache -q --set steps=1 --out quiet
check but_for_warnings_and_results bash -c '[ "$(wc -l <log)" = 1 ] && grep -q "$1" log && [ "$(cat stdout)" = quiet/ComfyUI_00001_.png ] || { cat log stdout; false; }' _ "$rounded"

# ---- faults name the option
expect an_axis_of_no_input 2 "error: --over widht: no parameter or input is called that; did you mean 'width'? [row 1: widht=8]" "$kiln" run flow.yaml --dry-run --over widht=8,16
printf 'widht\n8\n' >rows.csv
expect a_column_of_no_input 2 "error: --over-file: widht: no parameter" "$kiln" run flow.yaml --dry-run --over-file rows.csv
sed 's/^nodes/matrix: {widht: [8, 16]}\nnodes/' flow.yaml >matrix.yaml
expect a_matrix_of_no_input 2 "error: \`matrix\`: widht: no parameter" "$kiln" run matrix.yaml --dry-run
expect a_setting_of_no_input 2 "error: --set widht: no parameter" "$kiln" check flow.yaml --set widht=8
expect above_the_current_folder 2 "no file '../gone.png', seen from the current folder" "$kiln" check load.yaml --set image=../gone.png

# ---- patterns
mkdir store
"$kiln" run flow.yaml --no-cache -q --out in && mv in/*.png in/p1.png && cp in/p1.png in/p2.png && cp in/p1.png in/q1.png && cp in/p1.png 'in/odd[1].png'
rows() { "$kiln" run load.yaml --no-cache --dry-run --over "$@"; }
expect one_letter 0 "2 rows" rows 'image=in/p?.png'
expect some_letters 0 "2 rows" rows 'image=in/[pq]1.png'
expect a_file_with_brackets 0 "image=in/odd[1].png" rows 'image=in/odd[1].png'
expect a_pattern_of_no_file 2 "no file 'in/z?.png'" rows 'image=in/z?.png'
sed 's/^nodes/params: {name: x}\nnodes/; s/\[empty, 0\]/&, filename_prefix: "${name}"/' flow.yaml >named.yaml
mkdir other && cp load.yaml other/
expect a_folder 2 "input 'image': 'in' is a folder; name a file in it, or run once for each: --over 'image=in/*.png'" "$kiln" check other/load.yaml --set image=in
expect a_folder_that_is_found 2 "/in: is a folder; name a picture in it" "$kiln" check load.yaml --set "image=$work/in"
echo text >none.png
expect a_picture_that_is_none 2 "node 'load' (LoadImage): input 'image': $work/none.png: not a PNG, JPEG, WebP or AVIF file" "$kiln" check load.yaml --set image=none.png
ln -s "$KILN_ROOT/workflows/models/shapes-sd1" store/one && ln -s "$KILN_ROOT/workflows/models/shapes-sd1" store/two
expect folders_that_are_models 0 "2 rows" "$kiln" run round.yaml --no-cache --dry-run --set steps=1 --over 'ckpt_name=./store/*'
printf 'width;height\n8;16\n' >semicolons.csv
expect semicolons 2 "semicolons.csv:1: 'width;height': names are separated by ';'" "$kiln" run flow.yaml --dry-run --over-file semicolons.csv
expect a_question_is_a_text 0 "name=who. a [b]?" "$kiln" run named.yaml --no-cache --dry-run --over 'name=who. a [b]?'

# ---- pipes
models="$KILN_ROOT/workflows/models"
listing() { printf 'here:\n  base_path: %s\n  checkpoints: .\n' "$models"; }
export -f listing; export models
expect folders_from_a_substitution 0 "no faults" bash -c "'$kiln' check round.yaml --set steps=1 --models <(listing)"
expect also_where_models_are_listed 0 "shapes-xl-refiner" bash -c "'$kiln' models --kind checkpoints --models <(listing)"
expect and_in_the_sandbox 0 "" bash -c "'$kiln' run quiet/ComfyUI_00001_.png --no-cache -q --out again --models <(listing)"
expect no_list_in_a_substitution 2 "it is a map of sections" bash -c "'$kiln' check flow.yaml --models <(echo '- a')"
expect a_pipe_keeps_its_name 2 "kiln: error: -: this is a picture; \`kiln params -\`" bash -c "'$kiln' inspect - <in/p1.png"
expect also_of_what_is_no_model 2 "kiln: error: -: " bash -c "echo nothing | '$kiln' inspect -"
check without_a_descriptor bash -c '! grep -q proc/self log'
expect a_missing_lora 2 "there are 'shapes-" "$kiln" check "$KILN_ROOT/workflows/lora.yaml" --set lora_name=zzzzzzzzzz
check lists_no_pipelines bash -c '! grep -q "shapes-sd1\|shapes-xl" log'
same values_of_a_bare_name "$("$kiln" completions settings round.yaml sampler_name | head -n 1)" euler
cat >two.yaml <<'Y'
nodes:
  a: {class_type: KSamplerSelect, inputs: {sampler_name: euler}}
  b: {class_type: KSamplerSelect, inputs: {sampler_name: heun}}
Y
same unless_two_have_it "$("$kiln" completions settings two.yaml sampler_name)" ""

# ---- the ending of -o
wrong="its name ends in .latent, and this node writes .png, .jpg and .webp files"
for mode in "" --dry-run --explain "--dry-run --json"; do expect "ending_refused$mode" 2 "$wrong" "$kiln" run flow.yaml --no-cache -o x.latent $mode; check "and_nothing_else$mode" bash -c '[ ! -s stdout ] && [ "$(wc -l <log)" = 1 ] || { cat log stdout; false; }'; done
expect ending_accepted 0 "2 to run" "$kiln" run flow.yaml --no-cache -o x.webp --dry-run
expect a_picture_without_a_workflow 2 "carries no workflow" "$kiln" run "$KILN_ROOT/docs/images/samplers.png"
check is_no_matter_of_the_sandbox bash -c '! grep -q sandbox log'

# ---- the progress of a sweep
if command -v script >/dev/null; then
    shown() { # COLUMNS OF THE TERMINAL, ENV... -- its progress lines
        local columns=$1; shift
        env "$@" script -qec "stty cols $columns; '$kiln' run round.yaml --no-cache --out term --again --set width=64 --over steps=60,61" /dev/null 2>&1 | tr '\r' '\n' | sed 's/\x1b\[K//g' | grep -E "^[#.]* ?[01]/2 rows"
    }
    shown 100 TERM=xterm >wide; shown 40 TERM=xterm >narrow; shown 14 TERM=xterm >tiny; shown 200 TERM=xterm COLUMNS=40 >told
    check wide_names_the_row grep -qE "^#{10}\.{10} 1/2 rows, [0-9]+ s left; row 2 \(steps=61\): sampler step [0-9]+/61, [0-9.]+ (it/s|s/it)$" wide
    check narrow_has_pace_and_time_left grep -qE "^1/2 rows, [0-9]+ s left; [0-9]+/61, [0-9.]+ (it/s|s/it)$" narrow
    for one in "narrow 39" "tiny 13" "told 39"; do same "fits_${one% *}" "$(awk -v most="${one#* }" 'length > most' "${one% *}" | wc -l)" 0; check "says_something_${one% *}" [ -s "${one% *}" ]; done
else
    echo "SKIP the progress of a sweep: there is no script(1)"
fi
exit "$status"
