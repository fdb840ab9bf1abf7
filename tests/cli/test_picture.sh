# test_picture.sh - a picture carries the workflow that drew it, with the parameters of its head: what --set reached in the file it reaches in the picture.
. "$KILN_ROOT/tests/cli/head.sh"
tiny=(--models tests/golden -q)
small=(--set model.ckpt_name=tiny-sd1 --set empty.width=64 --set empty.height=64)
# draw FOLDER FILE OPTIONS...: the picture of a file that draws one
draw() { local to=$1; shift; "$kiln" run "$@" "${tiny[@]}" --out "$work/$to" >"$work/stdout" 2>"$work/log"; }
only() { ls "$work/$1"/*.png; }
# says NAME WORDS COMMAND...: refused with status 2 and these words
says() {
    local name=$1 part=$2 got; shift 2
    "$@" >"$work/stdout" 2>"$work/log"; got=$?
    if [ $got -eq 2 ] && grep -qF -- "$part" "$work/log"; then ok "$name"; else bad "$name" "exit status $got, says: $(head -n 3 "$work/log")"; fi
}

# ---- the README's line, on what make run draws, only with a smaller model
check first_picture draw a workflows/txt2img.yaml "${small[@]}" --set steps=2
cp "$(only a)" "$work/kiln_00001_.png"
check the_readmes_line draw b "$work/kiln_00001_.png" --set seed=8
check the_same_from_the_file draw c workflows/txt2img.yaml "${small[@]}" --set steps=2 --set seed=8
check is_the_same_picture cmp "$(only b)" "$(only c)"
check node_and_input_too draw d "$work/kiln_00001_.png" --set sampler.seed=8
draw again "$work/kiln_00001_.png"
check without_a_setting_the_same_bytes cmp "$work/kiln_00001_.png" "$(only again)"

# ---- what was set once stays set, in a picture of a picture too
draw star workflows/txt2img.yaml "${small[@]}" --set steps=2 --set 'prompt=a blue star, $5 "x" \ é' --set seed=3
draw star8 "$(only star)" --set seed=8
draw star8cfg "$(only star8)" --set cfg=2
draw direct workflows/txt2img.yaml "${small[@]}" --set steps=2 --set 'prompt=a blue star, $5 "x" \ é' --set seed=8 --set cfg=2
check settings_of_three_runs_add_up cmp "$(only star8cfg)" "$(only direct)"
check prompt_stayed grep -qa 'a blue star, $5 "x"' "$(only star8cfg)"
says parameters_have_their_names "did you mean 'seed'" "$kiln" run "$work/kiln_00001_.png" --set sed=8 "${tiny[@]}"
says a_wrong_value "a whole number from 1 to 10000" "$kiln" run "$work/kiln_00001_.png" --set steps=0 "${tiny[@]}"

# ---- an included file is in it; a parameter reaches through it as it did
mkdir "$work/elsewhere"
draw r workflows/refined.yaml "${small[@]}" --set steps=2 --set refine/sampler.steps=2
mv "$(only r)" "$work/elsewhere/refined.png"
check an_included_file_is_carried draw r8 "$work/elsewhere/refined.png" --set denoise=0.9 --set seed=4
draw r8direct workflows/refined.yaml "${small[@]}" --set steps=2 --set refine/sampler.steps=2 --set denoise=0.9 --set seed=4
check and_its_parameters_reach_it cmp "$(only r8)" "$(only r8direct)"

# ---- a sweep's row carries its own values; a sweep of a picture
"$kiln" run workflows/txt2img.yaml "${small[@]}" "${tiny[@]}" --set steps=1 --over seed=5,6 --out "$work/sweep" >/dev/null 2>"$work/log"
draw row "$work/sweep/kiln_00002_.png"
check a_row_carries_its_row cmp "$work/sweep/kiln_00002_.png" "$(only row)"
check a_picture_can_be_swept draw pics "$work/kiln_00001_.png" --over seed=1,2 --set steps=1
check of_a_picture_both_rows [ "$(only pics | wc -l)" = 2 ]

# ---- texts, numbers, structure: what a reference may decide
cat >"$work/odd.yaml" <<'Y'
params: {colour: 255, side: 16, word: "1.50", part: blank, prefix: 'a$$b', on: enable}
nodes:
  blank: {class_type: EmptyImage, inputs: {width: "${side}", height: "${side}", color: "${colour}"}}
  other: {class_type: EmptyImage, inputs: {width: 24, height: 8}}
  save: {class_type: SaveImage, inputs: {images: ["${part}", 0], filename_prefix: "${prefix}-${word}-$${x}"}}
Y
"$kiln" run "$work/odd.yaml" -q --out "$work/odd" >"$work/stdout" 2>"$work/log"
check odd_texts_are_written [ -s "$work/odd/a\$\$b-1.50-\${x}_00001_.png" ]
"$kiln" run "$work/odd/"*.png -q --set word=2 --set side=8 --out "$work/odd2" >"$work/stdout" 2>"$work/log"
check odd_texts_come_back [ -s "$work/odd2/a\$\$b-2-\${x}_00001_.png" ]
check it_is_converted_to_yaml "$kiln" convert "$work/odd/"*.png -o "$work/odd.again.yaml"
check with_its_parameters grep -q '^params:' "$work/odd.again.yaml"
"$kiln" run "$work/odd.again.yaml" -q --set word=2 --set side=8 --out "$work/odd3" >"$work/stdout" 2>"$work/log"
same and_draws_the_same "$(pixels "$work/odd3/a\$\$b-2-\${x}_00001_.png")" "$(pixels "$work/odd2/a\$\$b-2-\${x}_00001_.png")"
says what_decides_the_wiring_is_no_parameter_any_more "--set part: no parameter or input is called that" "$kiln" run "$work/odd/"*.png --set part=other

# ---- what ComfyUI reads is still there, and pictures that have only that still run
check comfyui_reads_its_own grep -qa 'tEXtprompt.{"model": {"inputs": {"ckpt_name": "tiny-sd1"}, "class_type": "CheckpointLoaderSimple"}' <(tr '\0' '.' <"$work/kiln_00001_.png")
printf '%s' '{"blank": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "color": 0}}, "save": {"class_type": "SaveImage", "inputs": {"images": ["blank", 0], "filename_prefix": "old"}}}' >"$work/api.json"
"$kiln" run "$work/api.json" -q --out "$work/old" >/dev/null 2>"$work/log"
check an_api_picture_carries_the_api_form_alone [ "$(grep -ac 'kiln.{"kiln"' <(tr '\0' '.' <"$work/old/old_00001_.png"))" = 0 ]
check a_picture_without_parameters_runs "$kiln" run "$work/old/old_00001_.png" --set blank.color=255 -q --out "$work/old2"
"$kiln" run "$work/old/old_00001_.png" --set color=255 -q --out "$work/old3" >/dev/null 2>"$work/log"
same an_inputs_name_is_enough_where_one_node_has_it "$(pixels "$work/old3/old_00001_.png")" "$(pixels "$work/old2/old_00001_.png")"
says and_names_the_nearest_input "did you mean 'color'" "$kiln" run "$work/old/old_00001_.png" --set colr=255

# ---- files: names stay as they were; they are looked for beside the picture and beside the folder it lies in
mkdir -p "$work/flow/out"
cp "$work/odd2/"*.png "$work/flow/in.png"
printf 'params: {image: in.png}\nnodes:\n  a: {class_type: LoadImage, inputs: {image: "${image}"}}\n  b: {class_type: SaveImage, inputs: {images: [a, 0], filename_prefix: f}}\n' >"$work/flow/flow.yaml"
"$kiln" run "$work/flow/flow.yaml" -q --out "$work/flow/out" >/dev/null 2>"$work/log"
check a_file_beside_the_workflow "$kiln" run "$work/flow/out/f_00001_.png" -q --out "$work/flow/out"
cp "$work/flow/out/f_00001_.png" "$work/elsewhere/f.png"
says a_file_that_is_not_there_is_named "no file 'in.png' for input" "$kiln" run "$work/elsewhere/f.png" --out "$work/x"
check it_is_found_where_input_says "$kiln" run "$work/elsewhere/f.png" --input "$work/flow" -q --out "$work/x"
exit $status
