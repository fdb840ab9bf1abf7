# test_crop_region.sh - ImageCropV2 is ImageCrop with a box, which a map, dotted names or a wire give; what CustomCombo gives; and what is said of boxes that are none.
. "$KILN_ROOT/tests/cli/head.sh"
draw() { # NAME NODES: PNGs of the nodes a, b, ...
    { echo 'kiln: 1'; echo 'nodes:'; echo '  load: {class_type: LoadImage, inputs: {image: dots.png}}'; echo "$2"; } >"$work/$1.yaml"
    "$kiln" run "$work/$1.yaml" --input tests/strangers/control/input --no-cache -q --out "$work/out" >"$work/stdout" 2>"$work/log"
}
save() { echo "  save_$1: {class_type: SaveImage, inputs: {images: [$1, 0], filename_prefix: $1}}"; }
crop() { echo "  $1: {class_type: ImageCropV2, inputs: {image: [load, 0], $2}}"; save "$1"; }
draw all "$(echo '  old: {class_type: ImageCrop, inputs: {image: [load, 0], x: 3, y: 5, width: 16, height: 9}}'; save old
echo '  box: {class_type: PrimitiveBoundingBox, inputs: {x: 3, y: 5, width: 16, height: 9}}'
crop map 'crop_region: {x: 3, y: 5, width: 16, height: 9}'; crop names 'crop_region.x: 3, crop_region.y: 5, crop_region.width: 16, crop_region.height: 9'
crop wired 'crop_region: [box, 0]'; crop whole 'crop_region: {x: 0}'; crop beyond 'crop_region: {x: 9999, y: 9999, width: 4, height: 4}')"
verdict boxes_are_cut_out $?
for name in map names wired; do same "as_${name}_says" "$(pixels "$work/out/${name}_00001_.png")" "$(pixels "$work/out/old_00001_.png")"; done
size() { python3 -I -c 'import struct, sys; print("%dx%d" % struct.unpack(">II", open(sys.argv[1], "rb").read(24)[16:24]))' "$1"; }
same sixteen_by_nine "$(size "$work/out/map_00001_.png")" 16x9
same by_default_all_of_it "$(pixels "$work/out/whole_00001_.png" | wc -w)$(size "$work/out/whole_00001_.png")" "2$(size tests/strangers/control/input/dots.png)"
same behind_the_edge_the_last_pixel "$(size "$work/out/beyond_00001_.png")" 1x1

combo() { # INPUTS: a picture under the choice's name
    draw combo "$(echo "  pick: {class_type: CustomCombo, inputs: {$1}}"; echo '  number: {class_type: EmptyImage, inputs: {width: [pick, 1], height: 8}}'; save number; echo '
  old: {class_type: SaveImage, inputs: {images: [load, 0], filename_prefix: [pick, 0]}}')"
}
check a_choice_names_a_file combo 'choice: second, index: 0, option1: first, option2: second, option3: ""'
check it_is_there [ -s "$work/out/second_00001_.png" ]
same its_place_is_found "$(size "$work/out/number_00001_.png")" 1x8

refused() { # NAME NODES SENTENCE
    draw bad "$2" && { bad "$1" "was drawn"; return; }
    check "$1" grep -qF -- "$3" "$work/log"
}
refused a_side_that_is_none "$(crop a 'crop_region: {width: 0}')" "input 'crop_region.width': '0' is not a whole number from 1 to 16384"
refused a_part_that_is_none "$(crop a 'crop_region: {left: 0}')" "'crop_region.left'"
refused a_list "$(crop a 'crop_region: [[1, 2], 3]')" "crop_region"
"$kiln" run "$work/all.yaml" --set map.crop_region.x=0 --set map.crop_region.width=4 --input tests/strangers/control/input --no-cache -q --out "$work/set" >"$work/stdout" 2>"$work/log"
same set_from_the_command_line "$(size "$work/set/map_00001_.png")" 4x9
refused a_map_where_a_number_belongs "$(echo '  a: {class_type: ImageCrop, inputs: {image: [load, 0], width: {x: 3}}}'; save a)" "not a list or map"
exit "$status"
