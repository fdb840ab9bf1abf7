# test_editor_forms.sh - files as ComfyUI's editor saves them, one for each thing that only the editor has, are the same workflow as the file in kiln's own
# form beside them: by what `kiln convert` writes, and by the pictures that both draw. tests/workflow/editor/NAME.json and NAME.yaml.
. "$KILN_ROOT/tests/cli/head.sh"
files=tests/workflow/editor
tiny=(--models tests/golden -q)
read_="$kiln check --models tests/golden"
says() { # NAME FILE WORDS: sound, and warns in these words
    $read_ "$2" >"$work/stdout" 2>"$work/log"; local got=$?
    if [ $got -eq 0 ] && grep -qF -- "$3" "$work/log"; then ok "$1"; else bad "$1" "exit status $got, says: $(cat "$work/log")"; fi
}

for file in "$files"/*.json; do
    name=$(basename "$file" .json)
    "$kiln" convert "$file" >"$work/$name.yaml" 2>"$work/log"
    check "convert_$name" diff "$files/$name.yaml" "$work/$name.yaml"
    expect "check_$name" 0 "no faults" $read_ "$file"
done

# ---- what goes with a muted or bypassed node is said
says muted_output "$files/mute.json" "node '83' (SaveImage): is left out: its input 'images' depends on node '80' (KSampler) \"Second pass\", which is muted"
says muted_subgraph "$files/subgraph.json" "node '33' (SaveImage): is left out: its input 'images' depends on node '24' (subgraph \"Draw\"), which is muted"
says bypassed_output "$files/bypass.json" "node '67' (SaveImage): is left out: its input 'images' depends on node '64' (VAEDecode), which is bypassed and has nothing to pass on"

# ---- the same pictures: from the editor's file, from what it is converted to, and from the API form of it
draw() { local to=$1; shift; "$kiln" run "$@" "${tiny[@]}" --out "$work/$to" >"$work/stdout" 2>"$work/log"; }
sums() { for p in "$work/$1"/*.png; do pixels "$p"; done; }
for name in subgraph primitive; do
    check "draws_$name" draw "saved_$name" "$files/$name.json"
    check "draws_${name}_converted" draw "yaml_$name" "$work/$name.yaml"
    "$kiln" convert "$files/$name.json" -o "$work/$name.api.json" 2>/dev/null
    check "draws_${name}_api" draw "api_$name" "$work/$name.api.json"
    same "${name}_is_as_converted" "$(sums "yaml_$name")" "$(sums "saved_$name")"
    same "${name}_is_as_the_api_form" "$(sums "api_$name")" "$(sums "saved_$name")"
done

# ---- --set by id, by the path of ids in a subgraph, by title
check set_by_id draw id "$files/reroute.json" --set 3.steps=1
draw again "$files/reroute.json" --set KSampler.steps=1
same set_by_title "$(sums again)" "$(sums id)"
draw two "$files/reroute.json"
check set_reaches_it [ "$(sums two)" != "$(sums id)" ]
expect set_in_a_subgraph 0 "" $read_ "$files/subgraph.json" --set 20:3:2.steps=3
says_value() { # NAME WORDS OPTIONS...: a --set that an inner widget takes shows in what it says of a wrong value
    local name=$1 words=$2; shift 2
    expect "$name" 2 "$words" $read_ "$files/subgraph.json" "$@"
}
says_value set_a_promoted_widget "node '20:3:2' (KSampler) in subgraph \"First\" > \"Inner\": input 'steps': 'many'" --set 20.steps=many
says_value set_it_by_title "node '20:3:2' (KSampler)" --set First.steps=many
says_value set_it_deeper "node '21:3:2' (KSampler)" --set 21:3.noise=many
says_value set_it_before_a_link "node '21:3:2' (KSampler)" --set 21.steps=many
says_value no_promoted_widget "--set 20.model: subgraph \"First\" shows no widget of that name" --set 20.model=x
says_value nearly_a_promoted_widget "--set 20.promt: subgraph \"First\" shows no widget of that name; did you mean 'prompt'?" --set 20.promt=x
expect set_a_shown_widget_of_a_nested_one 2 "node '1:5:7' (EmptyImage) \"Canvas\" in subgraph \"Outer box\" > \"Inner box\": input 'height': 'x'" $read_ "$files/nested_proxy.json" --set 1.height=x
expect set_it_one_level_down 2 "input 'height': 'x'" $read_ "$files/nested_proxy.json" --set 1:5.height=x
expect an_axis_that_nobody_shows 2 "--over 1.heigth: subgraph \"Outer box\" shows no widget of that name; did you mean 'height'?" "$kiln" run "$files/nested_proxy.json" --dry-run --over 1.heigth=8,16
draw prompt "$files/subgraph.json" --set "20.prompt=a blue square" --set 20.steps=3 --set 22.prompt="a red circle"
same a_promoted_text_reaches_it "$(pixels "$work/prompt/picture0_00001_.png")" "$(pixels "$work/saved_subgraph/picture1_00001_.png")"
same and_only_its_instance "$(pixels "$work/prompt/picture1_00001_.png")" "$(pixels "$work/saved_subgraph/picture1_00001_.png")"
expect a_title_that_two_have 2 "2 nodes have the title 'CLIP Text Encode (Prompt)': '6', '7'; name one of them" \
    $read_ "$files/reroute.json" --set "CLIP Text Encode (Prompt).text=x"
expect a_title_that_nobody_has 2 "no node is called 'Sampler of mine'" $read_ "$files/reroute.json" --set "Sampler of mine.steps=1"

# ---- a fault names the node, its title and where it is
expect fault_at_the_top 2 "widgets.json:7:3" $read_ "$files/widgets.json" --set 4.ckpt_name=nobody
expect fault_with_a_title 2 "node '4' (CheckpointLoaderSimple) \"The checkpoint\": input 'ckpt_name': no file 'nobody'" $read_ "$files/widgets.json" --set 4.ckpt_name=nobody
expect fault_in_a_subgraph 2 "node '20:3:2' (KSampler) in subgraph \"First\" > \"Inner\": input 'steps'" $read_ "$files/subgraph.json" --set 20:3:2.steps=x

expect no_output_left 2 "add one like SaveImage (muted and bypassed nodes are left out)" $read_ <(python3 -c '
import json, sys
j = json.load(open(sys.argv[1]))
for n in j["nodes"]: n["mode"] = 4 if n["type"] == "SaveImage" else n["mode"]
json.dump(j, sys.stdout)' "$files/version1.json")
python3 -c '
import json, sys
j = json.load(open(sys.argv[1])); del j["links"]; json.dump(j, open(sys.argv[2], "w"))
' "$files/reroute.json" "$work/nolinks.json"
expect links_are_gone 2 "has a link that is not in the file" $read_ "$work/nolinks.json"
python3 -c '
import sys
open(sys.argv[2], "w", encoding="utf-16").write(open(sys.argv[1]).read())
' "$files/reroute.json" "$work/utf16.json"
expect as_windows_saves_it 2 "it is UTF-16, as Windows writes it: save it as UTF-8" $read_ "$work/utf16.json"
expect a_group_node_of_old 2 "group nodes are of old: convert them to subgraphs in the editor" $read_ <(echo '{"nodes": [{"id": 1, "type": "workflow/My group", "outputs": [{"name": "IMAGE", "type": "IMAGE"}]}], "links": []}')

# ---- what belongs to another choice than the one made is said, and what a choice has is checked
expect of_another_choice 0 "input 'resize_type.longer_size' counts where 'resize_type' is 'scale longer dimension'; here that is 'scale by multiplier'" \
    $read_ "$files/dynamic.json" --set 3.resize_type.longer_size=7
expect of_this_choice 2 "input 'resize_type.multiplier': '9' is not a number from 0.01 to 8" $read_ "$files/dynamic.json" --set 3.resize_type.multiplier=9

# ---- the chunk `workflow` of a picture counts where there is no `prompt`
chunk() { # KEY FILE
    python3 - "$1" "$2" <<'P'
import struct, sys, zlib
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
sys.stdout.buffer.write(chunk(b"tEXt", sys.argv[1].encode() + b"\0" + open(sys.argv[2], "rb").read()))
P
}
if command -v python3 >/dev/null; then
    { printf '\x89PNG\r\n\x1a\n'; chunk workflow "$files/reroute.json"; printf '\0\0\0\0IEND\xae\x42\x60\x82'; } >"$work/editor.png"
    { printf '\x89PNG\r\n\x1a\n'; chunk workflow "$files/mute.json"; chunk prompt "$work/primitive.api.json"; printf '\0\0\0\0IEND\xae\x42\x60\x82'; } >"$work/both.png"
    draw picture "$work/editor.png"
    same a_pictures_workflow "$(sums picture)" "$(sums two)"
    draw both "$work/both.png"
    same its_prompt_comes_first "$(sums both)" "$(sums saved_primitive)"
else
    echo "skip a_pictures_workflow: no python3 here"
fi

# ---- convert
expect to_an_unknown_form 2 "the ending must be .yaml or .json" "$kiln" convert "$files/reroute.json" -o "$work/x.txt"
expect from_kilns_own_form 2 "is in kiln's own form" "$kiln" convert "$files/reroute.yaml"
"$kiln" convert "$files/reroute.yaml" -o "$work/x.json" 2>"$work/log"
draw from_yaml "$work/x.json"
same own_form_to_the_api "$(sums from_yaml)" "$(sums two)"
expect a_model_need_not_be_here 0 "ckpt_name: tiny-sd1" "$kiln" convert "$files/reroute.json"
exit $status
