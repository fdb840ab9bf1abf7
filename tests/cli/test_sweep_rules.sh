# test_sweep_rules.sh - who wins where a row, --set and the workflow's own matrix name the same thing; values that rows replace; and
# what a sweep promises that was killed between a picture and its line.
. "$KILN_ROOT/tests/cli/head.sh"
settings() { grep -o '"settings": {[^}]*}' "$1/manifest.jsonl" | sort | tr '\n' ' '; }

# ---- values that rows replace are not judged: the shipped img2img.yaml names a picture that is not there
"$kiln" run workflows/txt2img.yaml --models tests/golden --set model.ckpt_name=tiny-sd1 --set empty.width=64 --set empty.height=64 --set steps=1 --over seed=1,2 -q --out "$work/in" >/dev/null 2>"$work/log"
printf '%s\n' "$work/in/kiln_00001_.png" "$work/in/kiln_00002_.png" >"$work/list.txt"
img2img() { "$kiln" run workflows/img2img.yaml --models tests/golden --set model.ckpt_name=tiny-sd1 "$@"; }
expect a_list_replaces_what_is_not_there 0 "2 done" img2img --over "image=@$work/list.txt" --out "$work/i"
check of_each_a_picture [ "$(ls "$work"/i/*.png | wc -l)" = 2 ]
printf 'image,seed\n%s,3\n' "$work/in/kiln_00001_.png" >"$work/rows.csv"
expect so_does_a_file_of_rows 0 "1 done" img2img --over-file "$work/rows.csv" --out "$work/i2"
expect and_a_dry_run 0 "rows" img2img --over "image=@$work/list.txt" --dry-run --out "$work/i3"
sed "s|^nodes:|matrix: {image: [$work/in/kiln_00001_.png]}\nnodes:|" workflows/img2img.yaml >"$work/matrix-img.yaml"
expect a_matrix_does_for_check 0 "1 row, no faults" "$kiln" check "$work/matrix-img.yaml"
expect without_rows_it_is_a_fault 2 "no file 'example.png'" img2img --out "$work/i4"
expect a_row_that_leaves_it_is_one 2 "no file 'example.png'" img2img --over seed=1,2 --out "$work/i4"
check which_is_no_rows_own sh -c "! grep -q 'example.png.*row 1' '$work/log'"
expect a_wrong_row_is_named 2 "[row 2: image=$work/none.png]" img2img --over "image=$work/in/kiln_00001_.png,$work/none.png" --out "$work/i4"
check nothing_was_run [ ! -e "$work/i4/manifest.jsonl" ]

# ---- --set, --over and the matrix
cat >"$work/flow.yaml" <<'Y'
params: {width: 16, prefix: k}
matrix: {width: [16, 24, 32], prefix: [m, n]}
nodes:
  empty: {class_type: EmptyImage, inputs: {width: "${width}", height: 16}}
  save: {class_type: SaveImage, inputs: {images: [empty, 0], filename_prefix: "${prefix}"}}
Y
flow() { "$kiln" run "$work/flow.yaml" --no-cache "$@"; }
expect set_pins_an_axis 0 "2 done" flow --set width=48 --out "$work/p"
check and_it_is_said grep -qF "kiln: warning: --set width=48 holds for every row; what the workflow's \`matrix\` says of 'width' is not used" "$work/log"
check its_rows_have_that_value [ "$(settings "$work/p")" = '"settings": {"width": "48", "prefix": "m"} "settings": {"width": "48", "prefix": "n"} ' ]
check its_pictures_too grep -qa '"width": 48' "$work/p/m_00001_.png"
expect set_pins_all_axes 0 "1 done" flow --set width=48 --set prefix=z --out "$work/p1"
expect check_counts_what_is_left 0 "2 rows, no faults" "$kiln" check "$work/flow.yaml" --set width=48
expect over_replaces_an_axis 0 "4 done" flow --over width=8,12 --out "$work/p2"
check which_is_said_too grep -qF "kiln: warning: --over width: what the workflow's \`matrix\` says of 'width' is not used" "$work/log"
expect both_of_one_name 2 "--over width and --set of the same name: which?" flow --over width=8,12 --set width=9 --out "$work/x"
printf 'width\n9\n' >"$work/w.csv"; sed '/^matrix/d' "$work/flow.yaml" >"$work/plain.yaml"
expect both_in_a_file 2 "'width' also has a --set: which?" "$kiln" run "$work/plain.yaml" --over-file "$work/w.csv" --set width=9 --out "$work/x"
sed 's/^matrix:.*/matrix: [{width: 16, prefix: a}, {prefix: b}]/' "$work/flow.yaml" >"$work/rows.yaml"
expect set_holds_in_every_row_of_a_list 0 "2 done" "$kiln" run "$work/rows.yaml" --no-cache --set width=40 --out "$work/p3"
check of_which_each_has_it [ "$(settings "$work/p3")" = '"settings": {"width": "40", "prefix": "a"} "settings": {"width": "40", "prefix": "b"} ' ]
expect an_axis_that_moves_nothing 0 "parameter 'width' is used nowhere" flow --set empty.width=8 --out "$work/p4"

# ---- killed between a picture and its line: that row is drawn again, under the next number, and never lost; the line names the one that counts
plain() { "$kiln" run "$work/plain.yaml" --no-cache -q --over width=16,24,32 --out "$work/k"; }
plain >/dev/null 2>"$work/log"
lost=$(tail -n 1 "$work/k/manifest.jsonl" | sed 's/.*"files": \["\([^"]*\)".*/\1/') # rows finish in any order
sed -i '$d' "$work/k/manifest.jsonl" # as if it had been killed before it wrote the last line
cp "$work/k/manifest.jsonl" "$work/before"
plain >"$work/again" 2>"$work/log"
check only_that_row_is_drawn_again [ "$(wc -l <"$work/again")" = 1 ]
check each_row_has_one_line [ "$(grep -o '"row": [0-9]*' "$work/k/manifest.jsonl" | sort | uniq -c | awk '$1 == 1' | wc -l)" = 3 ]
check the_line_names_the_newer_file grep -qF '"files": ["k_00004_.png"]' "$work/k/manifest.jsonl"
check both_files_are_the_same_picture cmp "$work/k/$lost" "$work/k/k_00004_.png"
printf '{"row": 2, "sta' >>"$work/before"; cp "$work/before" "$work/k/manifest.jsonl" # or in the middle of it
plain >"$work/again" 2>"$work/log"
check half_a_line_is_no_row [ "$(wc -l <"$work/again")" = 1 ]
exit $status
